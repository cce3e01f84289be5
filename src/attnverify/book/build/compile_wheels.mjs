// Compile Python source to the byte code of the Python that the pages run, by that Python itself.
//   node compile_wheels.mjs PYODIDE_FOLDER FOLDER
// Each NAME.source of FOLDER, a zip, becomes NAME.zip, not compressed: FILE.pyc in the place of every
// FILE.py, other files as they are. Times and order are fixed, so equal sources give equal files.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, folder] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const py = await loadPyodide({ indexURL: pyodide + path.sep });
py.mountNodeFS("/work", folder);
py.runPython(`
import importlib._bootstrap_external as machinery
import importlib.util
import pathlib
import zipfile

def compiled(source, name):
    code = machinery.SourceLoader.source_to_code(machinery.SourceFileLoader("", name), source, name)
    # checked against nothing: there is no source beside it
    return machinery._code_to_hash_pyc(code, importlib.util.source_hash(source), False)

for path in sorted(pathlib.Path("/work").glob("*.source")):
    with zipfile.ZipFile(path) as stage, zipfile.ZipFile(path.with_suffix(".zip"), "w") as out:
        for name in sorted(stage.namelist()):
            content = stage.read(name)
            if name.endswith(".py"):
                name, content = name + "c", compiled(content, name)
            out.writestr(zipfile.ZipInfo(name), content)
`);
process.exit(0);
