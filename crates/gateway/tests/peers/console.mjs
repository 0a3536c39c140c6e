// A person at the console, in a real Chromium. Each step says its name once it has worked; anything that
// is not as it should be ends the program with an error.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

const setup = JSON.parse(process.argv[2]);
const require = createRequire(path.join(setup.peers, 'package.json'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
// The console takes no key for this long after a question has appeared.
const SETTLE_MS = 700;
const PATIENCE_MS = 60_000;
const VIEWS = [
  '/approvals', '/calls', '/sessions', '/policy', '/policy/explain', '/policy/replay', '/tools', '/usage',
  '/usage?by=tool', '/audit', '/grants', '/keys',
];

function done(step) {
  console.log(step);
}

async function tellServer(words) {
  console.log(words);
  await answers.next();
}

// The agent's side.

async function api(method, where, body) {
  const answer = await fetch(setup.base + where, {
    method,
    headers: { authorization: `Bearer ${setup.key}`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${where}: ${text}`);
  return JSON.parse(text);
}

async function call(tool, args, wait_ms = 0) {
  const body = { tool, arguments: args, session: 'fix-retries', wait_ms };
  return (await api('POST', '/v1/calls', body)).call;
}

const ask = (file, content = 'hello\n') => call('write', { path: file, content });

const edit = (old, text) => call('edit', { path: 'src/retry.rs', edits: [{ old, new: text }] });

async function outcome(id) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const found = await api('GET', `/v1/calls/${id}`);
    if (found.outcome !== 'open') return found;
    await new Promise((go) => setTimeout(go, 50));
  }
  throw new Error(`the call ${id} does not end`);
}

async function until(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(Date.now() < end, what);
    await new Promise((go) => setTimeout(go, 50));
  }
}

const written = (file) => fs.existsSync(path.join(setup.work, file));

// The browser.

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // Its own sandbox needs rights that a container does not give; the pages are the test's.
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});
const violations = [];
const wide = { width: 1280, height: 900 };

function watch(page) {
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('console', (message) => {
    if (/Content.Security.Policy|violates the following/i.test(message.text())) violations.push(message.text());
  });
  page.on('pageerror', (error) => violations.push(`error in a script: ${error}`));
  return page;
}

async function open(options = {}) {
  const context = await browser.newContext({ viewport: wide, ...options });
  return watch(await context.newPage());
}

async function go(page, where) {
  const answer = await page.goto(setup.base + where);
  assert.equal(answer.status(), 200, where);
}

// A question is on the page, whole, and keys are taken.
async function question(page, words) {
  await page.locator('#question', { hasText: words }).waitFor();
  await page.waitForTimeout(SETTLE_MS);
}

// The answer has arrived, and the page says so.
async function answered(page, words) {
  await page.locator('.told', { hasText: words }).waitFor();
}

// `serious` and `critical` are what keeps somebody from using a page.
async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run());
  const serious = found.violations.filter((one) => ['serious', 'critical'].includes(one.impact));
  const told = serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' | ')}`);
  assert.deepEqual(told, [], what);
  return found.passes.length;
}

async function fits(page, width, what) {
  const wanted = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wanted <= width, `${what} is ${wanted} wide at ${width}`);
}

async function shoot(page, name) {
  if (!setup.shots) return;
  fs.mkdirSync(setup.shots, { recursive: true });
  await page.screenshot({ path: path.join(setup.shots, `${name}.png`), fullPage: true });
}

// Every view, in every width and both schemes.
async function look(page, views) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [390, 1280, 1920]) {
      await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
      for (const [name, where] of views) {
        await go(page, where);
        await fits(page, width, where);
        if (width !== 1920) assert.ok(await accessible(page, `${where} ${colorScheme} ${width}`) > 10);
        await shoot(page, `${name}-${width}-${colorScheme}`);
      }
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(wide);
}

const page = await open();

await go(page, `/login?code=${setup.code}`);
await accessible(page, 'login');
await shoot(page, 'login');
await page.getByRole('button', { name: 'Log in' }).click();
await page.waitForURL('**/approvals');
await page.getByText('Nothing waits for an answer').waitFor();
await shoot(page, 'empty');
done('log in');

// The question comes by itself, with its diff, and a key answers it.
const first = await edit('attempts >= 10', 'attempts >= 3');
await question(page, 'retry.rs');
assert.match(await page.locator('#question .line.del').innerText(), /attempts >= 10/);
assert.match(await page.locator('#question .line.add').innerText(), /attempts >= 3/);
await shoot(page, 'question-live');
await page.keyboard.press('a');
await answered(page, 'retry.rs');
assert.equal((await outcome(first)).outcome, 'succeeded');
assert.match(fs.readFileSync(path.join(setup.work, 'src/retry.rs'), 'utf8'), /attempts >= 3/);
done('approve with the diff');

const second = await ask('two.txt');
await question(page, 'two.txt');
await page.keyboard.press('d');
await answered(page, 'two.txt');
assert.equal((await outcome(second)).outcome, 'denied');
assert.ok(!written('two.txt'));
done('deny');

const third = await ask('three.txt');
await go(page, '/approvals');
await question(page, 'three.txt');
await page.keyboard.press('r');
await page.keyboard.type('use free/ for a, d and j');
await page.getByRole('button', { name: 'Deny with this reason' }).click();
await answered(page, 'three.txt');
assert.match(JSON.stringify((await outcome(third)).result), /use free\/ for a, d and j/);
done('deny and say why');

const fourth = await ask('four.txt');
await question(page, 'four.txt');
await page.keyboard.press('l');
await accessible(page, 'always');
await shoot(page, 'always');
await page.getByRole('button', { name: 'Approve, and allow from now on' }).click();
await answered(page, 'four.txt');
assert.equal((await outcome(fourth)).outcome, 'succeeded');
assert.equal((await outcome(await ask('four.txt', 'again\n'))).outcome, 'succeeded');
done('always');

// Two wait: the keys go from one to the other, and an answer is for the one that is shown.
const [fifth, sixth] = [await ask('five.txt'), await ask('six.txt')];
await page.locator('.queue a').nth(1).waitFor();
await go(page, '/approvals');
await question(page, 'five.txt');
await page.keyboard.press('j');
await question(page, 'six.txt');
await page.keyboard.press('a');
await answered(page, 'six.txt');
assert.equal((await outcome(sixth)).outcome, 'succeeded');
assert.equal((await api('GET', `/v1/calls/${fifth}`)).outcome, 'open');
// A key that was meant for the page before answers nothing here.
await page.locator('#question').waitFor();
await page.keyboard.press('a');
assert.equal((await api('GET', `/v1/calls/${fifth}`)).outcome, 'open');
done('answer what is shown');

// What somebody else answered meanwhile cannot be answered any more.
const other = watch(await page.context().newPage());
await go(other, '/approvals');
await question(other, 'five.txt');
await go(page, '/approvals');
await question(page, 'five.txt');
await page.getByRole('button', { name: /^Deny/ }).first().click();
await answered(page, 'five.txt');
await other.locator('#state .over').waitFor();
await assert.rejects(other.getByRole('button', { name: /^Approve once/ }).click({ timeout: 200 }));
await other.close();
done('too late');

await go(page, '/calls');
const seventh = await call('read', { path: 'README.md' }, 30_000);
await page.locator(`#call-${seventh}`).waitFor();
done('a live call appears');

const eighth = await call('write', { path: 'free/eight.txt', content: '8\n' }, 30_000);
assert.ok(written('free/eight.txt'));
await page.locator(`#call-${eighth} a`).click();
await page.getByRole('link', { name: 'Take back…' }).click();
await shoot(page, 'undo');
await page.getByRole('button', { name: 'Take it back' }).click();
await page.getByRole('link', { name: 'Read the question' }).click();
await question(page, 'eight.txt');
await page.keyboard.press('a');
await answered(page, 'eight.txt');
await until('the file is gone', () => !written('free/eight.txt'));
done('take back');

await go(page, '/policy/replay');
await page.getByLabel('Rules, as in haft.toml').fill('[policy]\npreset = "careful"\ndeny = ["read(README.md)"]\n');
await page.getByRole('button', { name: 'Read what would change' }).click();
await page.locator('#result', { hasText: 'would be decided differently' }).waitFor();
await accessible(page, 'replay');
await shoot(page, 'replayed');
done('try other rules');

// Everything once more, as it looks with something in it.
const ninth = await edit(
  '        std::thread::sleep(Duration::from_secs(1));',
  '        // Wait longer each time, so that a server that is down can come back.\n        std::thread::sleep(Duration::from_millis(200 << attempts));',
);
await ask('docs/CHANGELOG.md', '# Changes\n\n- Retries wait longer each time.\n');
await ask('<img src=x onerror=alert(1)>\u202Etxt.sh', '<script>alert(1)</script>\n');
const denied = (await api('GET', '/v1/calls?outcome=denied')).items[0].call;
await go(page, '/approvals');
await question(page, 'retry.rs');
const asked = await page.locator('#question').getAttribute('data-question');
await look(page, [
  ...VIEWS.map((where) => [where.slice(1).replace(/[/?=]/g, '-'), where]),
  ['question', `/approvals/${asked}`],
  ['call', `/calls/${first}`],
  ['call-denied', `/calls/${denied}`],
  ['call-open', `/calls/${ninth}`],
  ['session', '/sessions?id=fix-retries'],
  ['calls-none', '/calls?search=nothinglikethis'],
  ['explained', `/policy/explain?tool=write&arguments=${encodeURIComponent('{"path": "secrets/a", "content": ""}')}`],
]);
done('every view is accessible and fits');

// Without scripts: the same session, another browser.
const plain = await open({ javaScriptEnabled: false, storageState: await page.context().storageState() });
await go(plain, '/calls');
await plain.locator(`#call-${seventh} a`).click();
assert.match(await plain.locator('#call').innerText(), /README\.md/);
await go(plain, '/approvals');
await plain.locator('.queue a', { hasText: 'CHANGELOG' }).click();
await shoot(plain, 'no-scripts');
await plain.getByRole('button', { name: 'Approve once' }).click();
await answered(plain, 'CHANGELOG');
await until('the file is there', () => written('docs/CHANGELOG.md'));
done('read and answer without scripts');

assert.deepEqual(violations, []);
// The same listener hears what it should: a script of the page's own is refused.
await page.evaluate(() => {
  const inline = document.createElement('script');
  inline.textContent = 'window.ran = true';
  document.body.append(inline);
});
assert.equal(await page.evaluate(() => window.ran), undefined);
await page.waitForTimeout(200);
assert.equal(violations.length, 1, 'the control is heard');
// And axe finds what is wrong.
await page.evaluate(() => document.querySelector('main').append(document.createElement('button')));
await assert.rejects(accessible(page, 'control'), /button-name/);
done('no violation of the content policy');

await go(page, '/keys');
await page.getByRole('button', { name: 'Make a link' }).click();
const link = await page.locator('.secret').innerText();
const guest = await open();
await go(guest, link.trim());
await guest.getByRole('button', { name: 'Log in' }).click();
await guest.waitForURL('**/approvals');
await guest.getByRole('button', { name: 'Log out' }).click();
await guest.waitForURL('**/login');
await guest.goto(`${setup.base}/calls`);
assert.match(guest.url(), /\/login$/);
done('log out');

// The session ends while a page is open: what happens next leads to the login, without a click.
await go(page, '/calls');
await tellServer('end sessions');
await call('read', { path: 'README.md' }, 30_000);
await page.waitForURL('**/login');
await page.goto(`${setup.base}/approvals`);
assert.match(page.url(), /\/login$/);
done('a session that has ended leads to the login');

assert.equal(violations.length, 1);
await browser.close();
done('all of it');
process.exit(0);
