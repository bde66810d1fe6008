"""Install the packages of a folder without a network: `python3 ci/install.py vendor`."""

import compileall
import pathlib
import shutil
import sys
import sysconfig

vendor = pathlib.Path(sys.argv[1])
site = pathlib.Path(sysconfig.get_path("purelib"))
for package in sorted(path for path in vendor.iterdir() if path.is_dir()):
    target = site / package.name
    shutil.copytree(package, target, dirs_exist_ok=True)
    compileall.compile_dir(target, quiet=1)
    print(f"installed {package.name} into {target}")
