// Python for one page, in a thread of its own: the page stays alive, and to stop is to end it.
// Receives {base} once, then {id, notebook, before, source}; answers {progress}, {ready}, {id, shown}.
// All files are the book's own; nothing is asked of another host.

const INDEX = "files.json";
let session = null;

const say = (message) => self.postMessage(message);

/** fetch that counts: the bytes of all files against the total that the build wrote down. */
async function counting(base) {
  const fetching = self.fetch.bind(self);
  const answer = await fetching(new URL(INDEX, base), { cache: "no-cache" });
  if (!answer.ok) throw new Error(`${INDEX}: ${answer.status}`);
  const files = await answer.json();
  const total = Object.entries(files).reduce(
    (sum, [name, file]) => sum + (/js$/.test(name) ? 0 : file.bytes), 0);  // scripts are not fetched
  let loaded = 0, told = 0;
  self.fetch = async (request, options) => {
    const response = await fetching(request, options);
    if (!response.body) return response;
    const count = new TransformStream({
      transform(chunk, out) {
        loaded += chunk.byteLength;
        if (loaded - told > total / 50) say({ progress: { loaded: (told = loaded), total } });
        out.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(count), { status, statusText, headers });
  };
  return files;
}

async function start(base) {
  const began = performance.now();
  const files = await counting(base);
  const { loadPyodide } = await import(new URL("pyodide.mjs", base));
  const python = await loadPyodide({ indexURL: base });
  say({ progress: { words: "loading sympy" } });
  for (const name of ["libraries.zip", "attnverify.zip"]) {
    const answer = await self.fetch(new URL(`${name}?${files[name].sha256.slice(0, 12)}`, base));
    if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
    python.FS.writeFile(`/${name}`, new Uint8Array(await answer.arrayBuffer()));
  }
  const namespace = python.runPython(`
import json
import sys

sys.path[:0] = ["/attnverify.zip", "/libraries.zip"]
from attnverify.book.inpage import absent_libraries

# for the life of this interpreter: formulas are looked up when a cell first uses them
lasting = absent_libraries.standing_in()
lasting.__enter__()
from attnverify.book.inpage.session import Session

def check(notebook, before, source, sessions={}):
    session = sessions.setdefault(notebook, Session(notebook))
    return json.dumps(session.check(json.loads(before), source).as_json())

check`);
  say({ ready: { seconds: (performance.now() - began) / 1000 } });
  return namespace;
}

self.onmessage = async ({ data }) => {
  try {
    if (data.base && session) say({ ready: { seconds: 0 } });  // another page has started it
    else if (data.base) session = start(data.base);
    const check = await session;
    if (data.source === undefined) return;
    const shown = check(data.notebook, JSON.stringify(data.before), data.source);
    say({ id: data.id, shown: JSON.parse(shown) });
  } catch (error) {
    say({ id: data.id, failed: String(error?.message ?? error) });
  }
};
