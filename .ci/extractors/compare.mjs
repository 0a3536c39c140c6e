// Writes what @mozilla/readability and turndown make of each page in two directories, as JSON by name.
// Usage: node compare.mjs INSTALLED DIRECTORY…
import { createRequire } from "node:module";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

const [installed, ...directories] = process.argv.slice(2);
const require = createRequire(join(installed, "package.json"));
const { JSDOM } = require("jsdom");
const { Readability } = require("@mozilla/readability");
const TurndownService = require("turndown");
const { gfm } = require("@joplin/turndown-plugin-gfm");

const turndown = new TurndownService({
  headingStyle: "atx",
  codeBlockStyle: "fenced",
  bulletListMarker: "-",
});
turndown.use(gfm);
// It makes code of `<pre><code>` only; most people who use it teach it the rest.
turndown.addRule("pre", {
  filter: (node) => node.nodeName === "PRE" && node.firstChild?.nodeName !== "CODE",
  replacement: (_, node) => `\n\n\`\`\`\n${node.textContent.replace(/\n$/, "")}\n\`\`\`\n\n`,
});

const results = {};
for (const directory of directories) {
  for (const file of readdirSync(directory).filter((file) => file.endsWith(".html")).sort()) {
    const page = readFileSync(join(directory, file), "utf8");
    const { document } = new JSDOM(page, { url: "https://site.example/section/page.html" }).window;
    const article = new Readability(document).parse();
    let text = article ? turndown.turndown(article.content ?? "") : "";
    // It takes the title off the text, and whoever uses it puts it back.
    if (article?.title && !text.includes(`# ${article.title}`)) {
      text = `# ${article.title}\n\n${text}`;
    }
    results[basename(file, ".html")] = text;
  }
}
process.stdout.write(JSON.stringify(results));
