"""Checks Kubernetes manifests on standard input: manifests.py VERSION REPRISE DIRECTORY…

Each manifest by its schema, in which no unknown key is allowed: those of Kubernetes VERSION are in the package kubernetes-validate, those of
custom resources are found in the DIRECTORIES. The configuration in a Secret is read by REPRISE. Exit code 1 names what is wrong.
"""

import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import kubernetes_validate
import yaml

version, reprise, *directories = sys.argv[1:]


def strict(schema):
    """The schema, in which objects have no keys but those that it names."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    is_open = made.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in made
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not is_open:
        made["additionalProperties"] = False
    return made


def custom(api_version, kind):
    """The schema of a custom resource."""
    group, number = api_version.split("/")
    for directory in directories:
        for path in pathlib.Path(directory).rglob(f"{group}_{kind.lower()}s.yaml"):
            definition = yaml.safe_load(path.read_text())
            for one in definition["spec"]["versions"]:
                if one["name"] == number:
                    schema = one["schema"]["openAPIV3Schema"]
                    schema["properties"]["metadata"] = {"type": "object"}
                    return strict(schema)
    raise SystemExit(f"no schema of {kind} ({api_version})")


def check_configuration(text):
    """What the server says of a configuration, but for one whose application comes from a pool: that is nowhere here."""
    if "release_pool" in text:
        return
    with tempfile.TemporaryDirectory() as place:
        # Whoever PHP would run as has to be let in.
        pathlib.Path(place).chmod(0o755)
        root = pathlib.Path(place, "public")
        root.mkdir()
        (root / "index.php").write_text("<?php")
        config = pathlib.Path(place, "reprise.toml")
        config.write_text(text.replace('"/app/public"', f'"{root}"'))
        done = subprocess.run([reprise, "check", "--config", config], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{text}\n{done.stdout}{done.stderr}")


manifests = [one for one in yaml.safe_load_all(sys.stdin) if one]
for manifest in manifests:
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    name = f"{kind} {manifest['metadata']['name']}"
    try:
        if "." in api_version.split("/")[0] and not api_version.split("/")[0].endswith(".k8s.io"):
            jsonschema.validate(manifest, custom(api_version, kind))
        else:
            kubernetes_validate.validate(manifest, version, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as wrong:
        raise SystemExit(f"{name}: {wrong}") from wrong
    if kind == "Secret":
        text = manifest["stringData"]["reprise.toml"]
        check_configuration(text)
        numbers = dict(line.split(" = ") for line in text.splitlines() if line.startswith(("shutdown_delay", "drain_timeout")))
        seconds = [int(value.strip('"s')) for value in numbers.values()]
    if kind == "Deployment":
        grace = manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
deployments = [one for one in manifests if one["kind"] == "Deployment"]
if len(deployments) != 1:
    raise SystemExit(f"{len(deployments)} Deployments")
if any(one["kind"] == "Secret" for one in manifests) and grace <= sum(seconds):
    raise SystemExit(f"terminationGracePeriodSeconds {grace} is not more than {seconds}")
print(f"ok {len(manifests)} manifests: {', '.join(sorted({one['kind'] for one in manifests}))}")
