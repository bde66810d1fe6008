import harmont as hm


@hm.pipeline("rust", timeout="40m")
def rust() -> tuple[hm.Step, ...]:
    base = hm.apt_base(packages=("cargo", "rustfmt", "rust-clippy"), image="debian:12")
    fetched = base.sh("cargo fetch --locked", label="Fetch", cache=hm.compose(hm.forever(), hm.on_change("Cargo.lock")))
    style = fetched.fork().sh("cargo fmt --check && cargo clippy -- -D warnings", label="Style")
    test = fetched.fork().sh("cargo test --locked", label="Test", runner_args={"cpu": 4, "memory_gb": 8})
    return (style, test)
