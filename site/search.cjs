// search.cjs SITE: does the site's own search put the right page first?
const fs = require("fs"), path = require("path"), vm = require("vm");

const WANTED = {
  semaphore: /^(python|java)\.html/,
  fencing: /^guides\/fences\.html/,
  "fencing token": /^guides\/fences\.html/,
  idempotency: /^(python|java|guides\/(fastapi|django|spring|payment))\.html/,
  "rate limit": /^(python|java)\.html/,
  "leader election": /^guides\/leader\.html/,
  cron: /^guides\/periodic\.html/,
  asyncio: /^guides\/asyncio\.html/,
  redlock: /^redlock\.html/,
  metrics: /^operations\/metrics\.html/,
};

const site = process.argv[2], workers = path.join(site, "assets/javascripts/workers");
const [worker] = fs.readdirSync(workers).filter((name) => /^search.*\.js$/.test(name));
let hear, answer;
const room = {
  console, TextEncoder, setTimeout,
  addEventListener: (_, listener) => (hear = listener),
  postMessage: (message) => answer(message),
};
room.self = room.globalThis = room;
vm.runInNewContext(fs.readFileSync(path.join(workers, worker), "utf8"), room);
const ask = (message) => new Promise((resolve) => ((answer = resolve), hear({ data: message })));

(async () => {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  await ask({ type: 0, data: { ...index, options: {} } });
  for (const [words, page] of Object.entries(WANTED)) {
    const { data } = await ask({ type: 2, data: words.split(" ").map((word) => word + "*").join(" ") });
    const found = data.items.slice(0, 3).map((sections) => sections[0].location);
    if (process.env.SHOW) console.log(words, found);
    if (page.test(found[0])) continue;
    console.error(`A search for ${words} finds ${found.join(", ") || "nothing"}.`);
    process.exitCode = 1;
  }
})();
