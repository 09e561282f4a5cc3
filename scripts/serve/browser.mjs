// The page as people use it: load, generate, race, heat map, sliders, replay, trace file, infill, chat, bad input, keys,
// a narrow screen, light and dark. Any console error or request to elsewhere fails the test.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { alone, count, DESKTOP, fast, generate, open, PHONE, PROMPT, run, settle, shoot, slide, steps, tokens } from "./page.mjs";

const tests = {
  async "it loads and names the model"() {
    const page = await open();
    assert.equal(await page.title(), "demask · watch text denoise");
    assert.ok((await page.textContent("#model")).length > 0);
    assert.ok((await count(page, "#decoder-a option")) > 10);
    await page.context().close();
  },

  async "it generates, live"() {
    const page = await open();
    await page.fill("#text", PROMPT);
    await page.click("#go");
    await page.waitForSelector(".lane-a .token.masked");
    await page.waitForSelector(".lane-a .token.newest");
    await settle(page);
    assert.equal(await count(page, ".lane-a .token.masked"), 0);
    assert.ok((await steps(page)) > 0);
    const title = await page.getAttribute(".lane-a .token.committed", "title");
    assert.match(title, /committed in step \d+, confidence/);
    assert.match(await page.textContent("#status"), /finished in \d+ steps/);
    await page.context().close();
  },

  async "two decoders race"() {
    const page = await open();
    assert.ok(await page.isChecked("#race"));
    assert.equal(await page.inputValue("#decoder-b-name"), "entropy");
    await generate(page);
    assert.equal(await count(page, ".lane"), 2);
    assert.equal(await count(page, ".lanes .token.masked"), 0);
    assert.match(await page.textContent("#outcome"), /passes.* and .* time \(/);
    const [a, b] = [await steps(page, ".lane-a"), await steps(page, ".lane-b")];
    assert.ok(a > 0 && b > 0 && a <= b, `${a} steps against ${b} one at a time`);
    assert.match(await page.textContent(".lane-b .numbers"), /m?s/);
    await page.context().close();
  },

  async "a heat map is linked with the tokens"() {
    const page = await open();
    if ((await page.inputValue("#decoder-a-name")) !== "demask") return "this model has no predictor";
    await slide(page, "#decoder-a-tau", 120);
    await generate(page);
    await page.locator("#scrub").fill("2");
    assert.ok(await page.isVisible("#matrix"));
    await page.hover(".lane-a .token.committed");
    assert.ok((await count(page, "#ties li")) > 0);
    assert.equal(await count(page, ".lane-a .token.subject"), 1);
    let tied = 0;
    for (const token of await page.locator(".lane-a .token.masked, .lane-a .token.committed").all()) {
      await token.hover();
      tied = await count(page, ".lane-a .token.tied");
      if (tied > 0) break;
    }
    assert.ok(tied > 0, "no token depends on another");
    await page.hover("#matrix");
    assert.match(await page.textContent("#cell"), /depends on .*: /);
    await page.focus("#matrix");
    await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent("#cell"), /depends on .*: /);
    await shoot(page, "heat");
    await page.context().close();
  },

  async "sliders change the budget"() {
    const page = await open();
    if ((await page.inputValue("#decoder-a-name")) !== "demask") return "this model has no predictor";
    await fast(page);
    await slide(page, "#decoder-a-tau", 0);
    await slide(page, "#decoder-a-gamma", 0);
    await generate(page);
    const careful = await steps(page);
    assert.match(await page.textContent(".lane-a .note"), /budget [\d.e-]+ of 0/);
    // Moving a slider runs again.
    await slide(page, "#decoder-a-tau", 200);
    await page.waitForFunction(() => document.querySelector(".lane-a h2").textContent.includes("tau=10"));
    await settle(page);
    const bold = await steps(page);
    assert.ok(bold < careful, `${bold} steps with the largest τ, ${careful} with none`);
    assert.match(await page.textContent("#decoder-a output"), /10/);
    assert.ok((await count(page, ".lane-a .budget-bar")) > 0);
    await page.context().close();
  },

  async "a run is replayed"() {
    const page = await open();
    await fast(page);
    await alone(page);
    await generate(page);
    const last = await tokens(page);
    const most = await page.getAttribute("#scrub", "max");
    await page.locator("#scrub").fill("0");
    assert.ok((await tokens(page)).every((token) => token === null));
    await page.locator("#scrub").fill("1");
    assert.ok((await count(page, ".lane-a .token.newest")) > 0);
    await page.locator("#scrub").fill("0");
    await page.click("#play");
    await settle(page);
    assert.deepEqual(await tokens(page), last);
    assert.equal(await page.inputValue("#scrub"), most);
    await page.click(".lane-a .strip .bar:first-child .hit", { force: true });
    assert.equal(await page.inputValue("#scrub"), "1");
    await page.selectOption("#shade", "step");
    await page.check("#show-prompt");
    assert.ok((await count(page, ".lane-a .token.given")) > 0);
    await page.context().close();
  },

  async "a trace file comes back as it was"() {
    const page = await open();
    await fast(page);
    await generate(page);
    const before = await tokens(page);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(".lane-a button:text('Save trace')")]);
    const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "trace-")), "run.trace.jsonl");
    await download.saveAs(file);
    const lines = fs.readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(lines[0].demask_trace, 1);
    assert.equal(lines.length - 1, await steps(page));
    // A trace of the command line has no texts of its own.
    for (const line of lines) delete line.texts;
    fs.writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n"));
    const other = await open();
    await other.setInputFiles("#open", file);
    // The page has opened on an example, whose tokens are there until the file's are.
    for (let tries = 0; tries < 100 && String(await tokens(other)) !== String(before); tries++) await other.waitForTimeout(100);
    assert.deepEqual(await tokens(other), before);
    fs.writeFileSync(file, "no trace");
    await other.setInputFiles("#open", file);
    await other.waitForFunction(() => document.getElementById("error").textContent.includes("not a trace"));
    fs.rmSync(path.dirname(file), { recursive: true });
    await page.context().close();
    await other.context().close();
  },

  async "clicked tokens are filled again"() {
    const page = await open();
    await fast(page);
    await generate(page);
    await page.click(".lane-a button:text('Mask tokens')");
    const before = await tokens(page);
    const committed = page.locator(".lane-a .token.committed");
    await committed.nth(0).click();
    await committed.nth(0).click();
    const holed = await tokens(page);
    assert.equal(holed.filter((token) => token === null).length, 2);
    await shoot(page, "masking");
    await page.click(".lane-a button:text('Fill the gaps')");
    await settle(page);
    const after = await tokens(page);
    assert.equal(after.filter((token) => token === null).length, 0);
    assert.equal(await count(page, ".lane-a .token.committed"), 2);
    holed.forEach((token, i) => token === null || assert.equal(after[i], token, `token ${i} of ${before}`));
    await page.context().close();
  },

  async "a text with gaps is filled, one without becomes tokens"() {
    const page = await open();
    await fast(page);
    await page.check("input[value=gaps]", { force: true });
    await generate(page, "eva has [MASK:2] shells . eva finds");
    // A model may end the text in the first gap, which fills the second.
    assert.equal((await tokens(page)).filter((token) => token === null).length, 0);
    assert.ok([1, 2].includes(await count(page, ".lane-a .token.committed")));
    await page.fill("#text", "eva has 7 shells");
    await page.click("#go");
    await page.waitForSelector(".lane-a .token[aria-pressed]");
    assert.equal(await page.textContent(".lane-a .numbers dd"), "0");
    await page.locator(".lane-a .token").nth(1).click();
    await page.click(".lane-a button:text('Fill the gaps')");
    await settle(page);
    assert.equal(await count(page, ".lane-a .token.committed"), 1);
    await page.context().close();
  },

  async "a chat goes on"() {
    const page = await open();
    if (await page.isDisabled("input[value=chat]")) return "this model has no chat template";
    await fast(page);
    await page.check("input[value=chat]", { force: true });
    await generate(page);
    await page.waitForSelector("#log li.assistant");
    await generate(page, "eva has 7 shells ?");
    await page.waitForFunction(() => document.querySelectorAll("#log li").length === 4);
    await page.click("#forget");
    assert.equal(await count(page, "#log li"), 0);
    await page.context().close();
  },

  async "a task is posed and judged"() {
    const page = await open();
    if (await page.isHidden("#tasks")) return "this model has no tasks";
    await fast(page);
    await page.selectOption("#task", "arith");
    await page.click("#problem");
    await page.waitForFunction(() => document.getElementById("text").value.length > 2);
    await generate(page, null);
    await page.waitForSelector(".lane-a .verdict:not([hidden])");
    assert.match(await page.textContent(".lane-a .verdict"), /Right|Wrong/);
    await page.context().close();
  },

  async "bad input is answered in words"() {
    const page = await open();
    await page.fill("#text", "");
    await page.click("#go");
    assert.match(await page.textContent("#error"), /no text/);
    await page.check("input[value=gaps]", { force: true });
    await page.fill("#text", "a gap [MASK:0] of nothing");
    await page.click("#go");
    await page.waitForFunction(() => /between 1 and 65536/.test(document.getElementById("error").textContent));
    await page.check("input[value=prompt]", { force: true });
    await page.click("summary:text('More settings')");
    await page.fill("#length", "99999999");
    await page.fill("#text", PROMPT);
    await page.click("#go");
    assert.equal(await page.$eval("#length", (input) => input.validity.valid), false);
    await page.fill("#length", "16");
    await generate(page);
    assert.equal(await page.textContent("#error"), "");
    await page.context().close();
  },

  async "keys and names suffice"() {
    const page = await open();
    await fast(page);
    await page.focus("#text");
    await page.keyboard.insertText(PROMPT);
    await page.keyboard.press("Control+Enter");
    await settle(page);
    await page.focus(".lane-a .token[tabindex='0']");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    const label = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    assert.match(label, /position \d+/);
    assert.equal(await count(page, ".lane-a .token[tabindex='0']"), 1);
    const unnamed = await page.$$eval("button, input, select, textarea, canvas", (all) =>
      all.filter((node) => node.checkVisibility() && !node.ariaLabel && !node.labels?.length && !node.textContent.trim()).map((n) => n.outerHTML));
    assert.deepEqual(unnamed, []);
    await page.context().close();
  },

  async "it fits a phone"() {
    const page = await open(PHONE);
    await fast(page);
    await generate(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, `${wide} px too wide`);
    const [a, b] = await Promise.all([".lane.lane-a", ".lane.lane-b"].map((lane) => page.locator(lane).boundingBox()));
    assert.ok(b.y >= a.y + a.height, "the lanes are not below one another");
    await shoot(page, "phone-light");
    await page.click("#theme");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await shoot(page, "phone-dark");
    await page.context().close();
  },

  async "light and dark"() {
    const papers = [];
    for (const scheme of ["light", "dark"]) {
      const page = await open(DESKTOP, scheme);
      await fast(page);
      if (await page.isHidden("#tasks")) await page.fill("#text", PROMPT);
      await generate(page, null);
      const middle = Math.max(1, Math.floor((await steps(page)) / 3));
      await page.locator("#scrub").fill(String(middle));
      await page.locator(".lane-a .token.masked, .lane-a .token.committed").first().hover();
      papers.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      await shoot(page, `desktop-${scheme}`);
      await page.context().close();
    }
    assert.notEqual(papers[0], papers[1]);
  },
};

await run(tests);
