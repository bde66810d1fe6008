"""Print this project's pipeline as v0 IR, made by the public DSL. README.md says how to run it."""

import json
import runpy

import harmont

runpy.run_path(".hm/pipeline.py")
(pipeline,) = json.loads(harmont.dump_registry_json(now=0))["pipelines"]
print(json.dumps(pipeline["definition"], indent=2))
