import harmont as hm


@hm.pipeline("c", timeout="20m")
def c() -> tuple[hm.Step, ...]:
    base = hm.apt_base(packages=("build-essential", "cmake", "ninja-build"), image="debian:12")
    compiled = base.sh("cmake -B build -G Ninja && ninja -C build", label="Compile", cache=hm.forever())
    test = compiled.sh("ninja -C build && ctest --test-dir build --output-on-failure", label="Test")
    return (test,)
