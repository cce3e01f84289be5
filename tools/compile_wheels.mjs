// Compile Python source to the byte code of the Python that the pages run, by that Python itself.
//   node compile_wheels.mjs PYODIDE_FOLDER STAGE OUT
// Each folder of STAGE becomes OUT/NAME.zip: NAME.pyc in the place of every NAME.py, other files as
// they are. Times and order are fixed, so equal sources give equal files.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, stage, out] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const py = await loadPyodide({ indexURL: pyodide + path.sep });
py.mountNodeFS("/stage", stage);
py.mountNodeFS("/out", out);
py.runPython(`
import importlib._bootstrap_external as machinery
import importlib.util
import pathlib
import zipfile

def compiled(path, name):
    source = path.read_bytes()
    code = machinery.SourceLoader.source_to_code(machinery.SourceFileLoader("", name), source, name)
    # checked against nothing: there is no source beside it
    return machinery._code_to_hash_pyc(code, importlib.util.source_hash(source), False)

for folder in sorted(pathlib.Path("/stage").iterdir()):
    with zipfile.ZipFile(f"/out/{folder.name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = path.relative_to(folder).as_posix()
            content = compiled(path, name) if path.suffix == ".py" else path.read_bytes()
            name = name.removesuffix(".py") + ".pyc" if path.suffix == ".py" else name
            out.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
`);
process.exit(0);
