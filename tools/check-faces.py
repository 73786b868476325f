"""Checks what amp writes for other programs against their own schemas and readers.

    amp check bad.kdl --message-format sarif > f.sarif        (and the like)
    python tools/check-faces.py --sarif-schema sarif-schema-2.1.0.json --junit-schema junit-10.xsd FILE...

FILEs are told apart by their names: `*.sarif` and `*.junit` are validated, `*.tfevents.*` are read back by TensorBoard's own
reader, `*.yml` are validated as a workflow of GitHub or, with `gitlab` in their names, as a job of GitLab, `*.statement.json` are
read as the protocol buffers of in-toto (`--in-toto FOLDER` with the repository in-toto/attestation's `python/` in it).

The schemas are those of OASIS (sarif-tcs/sarif-spec, `sarif-2.1/schema`) and of Jenkins' xUnit plugin
(`src/main/resources/.../junit-10.xsd`). They are not in this repository: take them from there. Needs `jsonschema`, `lxml`,
`check-jsonschema`, `tensorboard` and `protobuf`, each only for the files that are given.
"""

import argparse
import json
import pathlib
import sys


def sarif(path, schema):
    import jsonschema

    document = json.loads(path.read_text())
    schema = json.loads(pathlib.Path(schema).read_text())
    validator = jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker())
    faults = [f"{list(fault.path)}: {fault.message}" for fault in validator.iter_errors(document)]
    assert not faults, faults
    return f"{len(document['runs'][0]['results'])} results"


def junit(path, schema):
    from lxml import etree

    document = etree.parse(str(path))
    etree.XMLSchema(etree.parse(schema)).assertValid(document)
    return f"{len(document.findall('.//testcase'))} cases"


def tensorboard(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    names = tags["scalars"] or tags["tensors"]
    read = events.Scalars if tags["scalars"] else events.Tensors
    counts = {name: len(read(name)) for name in names}
    assert counts, "no scalar"
    return json.dumps(counts)


def pipeline(path):
    import subprocess

    # GitLab's own schema, and SchemaStore's of workflows, as the package carries them; it also reads `on` as YAML 1.2 does.
    kind = "gitlab-ci" if "gitlab" in path.name else "github-workflows"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return f"valid by {kind}"


def statement(path, folder):
    sys.path.insert(0, folder)
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
    from in_toto_attestation.v1 import statement_pb2

    text = path.read_text()
    # Unknown fields are faults: what is written is what the protocol buffers of in-toto name, and no more.
    json_format.Parse(text, statement_pb2.Statement())
    document = json.loads(text)
    predicates = {
        "https://slsa.dev/provenance/v1": provenance_pb2.Provenance,
        "https://in-toto.io/attestation/test-result/v0.1": test_result_pb2.TestResult,
    }
    json_format.Parse(json.dumps(document["predicate"]), predicates[document["predicateType"]]())
    return document["predicateType"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--sarif-schema")
    parser.add_argument("--junit-schema")
    parser.add_argument("--in-toto")
    asked = parser.parse_args()
    for path in asked.files:
        name = path.name
        if name.endswith(".sarif"):
            said = sarif(path, asked.sarif_schema)
        elif name.endswith(".junit"):
            said = junit(path, asked.junit_schema)
        elif ".tfevents." in name:
            said = tensorboard(path)
        elif name.endswith((".yml", ".yaml")):
            said = pipeline(path)
        elif name.endswith(".statement.json"):
            said = statement(path, asked.in_toto)
        else:
            parser.error(f"{path}: a file of no kind that is known here")
        print(f"{path}: {said}")


main()
