# Runs a shell program in the namespaces of a process, with the capabilities that this has. Who joins a user namespace has
# every capability there until it drops them, so the job must not trace this process, nor its child, and nothing of the job
# is executed before: nsenter would do that.

my ($process, $program) = @ARGV;
my %calls = (62 => [308, 157], 183 => [268, 167], 243 => [268, 167], 40 => [375, 172]);    # setns, prctl, by machine
my ($SET_DUMPABLE, $CAPBSET_READ, $CAPBSET_DROP, $UNTRACED, $STOPPED) = (4, 23, 24, 2, 0x7F);

sub fail { print STDERR "the job cannot be entered: $_[0]: $!\n"; exit 1 }

open my $file, '<', '/proc/self/exe' or fail('perl');
read $file, my $header, 20;
my ($setns, $prctl) = @{ $calls{ unpack 'x18v', $header } };
syscall($prctl, $SET_DUMPABLE, 0, 0, 0, 0) == 0 or fail('prctl');

open $file, '<', "/proc/$process/status" or fail('status');
my ($kept) = join('', <$file>) =~ /^CapBnd:\s*(\w+)/m or fail('capabilities');
close $file;
my @namespaces;
for (qw(user cgroup ipc uts net pid_for_children mnt)) {
    my $path = "/proc/$process/ns/$_";
    next if readlink $path eq readlink "/proc/self/ns/$_";
    open my $namespace, '<', $path or fail($path);
    push @namespaces, $namespace;
}
syscall($setns, fileno $_, 0) == 0 or fail('setns') for @namespaces;
for my $number (0 .. 63) {
    next if hex(substr $kept, 15 - int($number / 4), 1) >> $number % 4 & 1;
    last if syscall($prctl, $CAPBSET_READ, $number, 0, 0, 0) < 0;
    syscall($prctl, $CAPBSET_DROP, $number, 0, 0, 0) == 0 or fail('capabilities');
}
defined(my $child = fork) or fail('fork');
exec {'/bin/sh'} 'sh', '-c', $program or fail('/bin/sh') if $child == 0;

# As nsenter does: stop with the child, and end as it has ended.
while (waitpid($child, $UNTRACED) == $child && ($? & 0xFF) == $STOPPED) {
    kill 'STOP', $$;
    kill 'CONT', $child;
}
kill $? & 0x7F, $$ if $? & 0x7F;
exit $? >> 8;
