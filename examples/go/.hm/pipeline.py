import harmont as hm


@hm.pipeline("go", timeout="20m")
def go() -> tuple[hm.Step, ...]:
    base = hm.apt_base(packages=("golang-go", "ca-certificates", "git"), image="debian:12")
    modules = base.sh(
        "go mod download",
        label="Modules",
        cache=hm.compose(hm.forever(), hm.on_change("go.mod", "go.sum")),
    )
    vet = modules.fork().sh('go vet ./... && test -z "$(gofmt -l .)"', label="Vet")
    test = modules.fork().sh("go test ./...", label="Test", runner_args={"cpu": 4})
    return (vet, test)
