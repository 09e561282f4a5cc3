// The first look at the page: the race it opens on, what it says, links, frames, the saved replay, and axe-core.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

import { alone, connected, count, DESKTOP, fast, generate, open, PHONE, PROMPT, run, settle, shoot, steps, tokens, url, violations, visit } from "./page.mjs";

const hasRace = async (page) => (await count(page, ".lane")) === 2;

const tests = {
  async "it opens on a race that replays itself"() {
    const page = await open(DESKTOP, "light", { motion: "no-preference" });
    if (!(await hasRace(page))) return "no example of this model is right";
    await page.waitForFunction(() => document.getElementById("play").textContent.includes("❚❚"));
    assert.ok((await count(page, ".token.masked")) > 0, "nothing is left to watch");
    await settle(page);
    assert.equal(await count(page, ".lanes .token.masked"), 0);
    const [few, many] = [await steps(page, ".lane-a"), await steps(page, ".lane-b")];
    assert.ok(few < many, `${few} against ${many}`);
    // The sentence, the prompt, who won in passes and in time, the verdict and what it looked at.
    assert.match(await page.textContent("#caption"), /pass/);
    assert.equal(await page.textContent("#prompt-text"), (await page.inputValue("#text")).trim());
    assert.match(await page.textContent("#outcome"), /× fewer passes than entropy \(\d+ against \d+\) and .*× \w+ time \(.* against .*\)/);
    assert.match(await page.textContent(".lane-a .verdict"), /Right Checked .* problem \d+: found/);
    // A word problem, which everybody can check, told right to the last word.
    assert.match(await page.textContent("#prompt-text"), /\d.*[?.]/);
    assert.equal(await page.inputValue("#task"), "arith");
    for (const lane of [".lane-a", ".lane-b"]) assert.doesNotMatch(await page.textContent(`${lane} .verdict`), /Wrong|not every word/);
    // The matrix at the end is one to learn from.
    assert.ok(await page.isVisible("#matrix"));
    assert.match(await page.textContent("#lesson"), /Step \d+ wrote \d+ token/);
    const size = Number(/matrix of (\d+) masked/.exec(await page.getAttribute("#matrix", "aria-label"))[1]);
    assert.ok(size > 1, `a matrix of ${size}`);
    // Colours, ends and the budget are explained where they are.
    for (const words of ["still masked", "end of the text", "written in this step"]) assert.ok((await page.textContent(".key")).includes(words));
    assert.match(await page.textContent(".lane-a .legend"), /budget/);
    await page.context().close();
  },

  async "whoever wants no motion sees the end at once"() {
    const page = await open();
    if (!(await hasRace(page))) return "no example of this model is right";
    assert.equal(await count(page, ".lanes .token.masked"), 0);
    assert.equal(await page.inputValue("#scrub"), await page.getAttribute("#scrub", "max"));
    await page.context().close();
  },

  async "a race can be watched on a phone"() {
    const page = await open(PHONE, "dark");
    await generate(page);
    await page.locator("#scrub").fill("3");
    await page.$eval("#lanes", (lanes) => lanes.scrollIntoView());
    const [bar, a, b] = await Promise.all([".replay", ".lane.lane-a .tokens", ".lane.lane-b .tokens"].map((part) => page.locator(part).boundingBox()));
    assert.ok(a.y >= bar.y + bar.height && b.y > a.y && b.y + b.height <= PHONE.height, `the second canvas ends at ${b.y + b.height}`);
    await shoot(page, "phone-race", false);
    await page.context().close();
  },

  async "on a phone the view stays at the race while it runs"() {
    const page = await open(PHONE, "light", { motion: "no-preference" });
    await page.$eval("#pace", (select) => (select.value = "150"));
    await page.fill("#text", PROMPT);
    await page.click("#go");
    const top = () => page.evaluate(() => {
      const bottom = document.querySelector(".replay").getBoundingClientRect().bottom;
      return document.getElementById("lanes").getBoundingClientRect().top - bottom;
    });
    const running = () => page.evaluate(() => document.getElementById("stage").classList.contains("under-way"));
    await page.waitForSelector(".lane-a .token.newest");
    let looked = 0;
    for (; await running(); looked++) {
      const gap = await top();
      assert.ok((!(await running())) || (gap > -4 && gap < 24), `the race is ${gap} pixels below the replay`);
      await page.waitForTimeout(60);
    }
    assert.ok(looked > 3, `looked ${looked} times`);
    // Then the line that says who won comes into view, with the race below it.
    await settle(page);
    const said = await page.locator("#outcome").boundingBox();
    const bar = await page.locator(".replay").boundingBox();
    assert.ok(said.y >= bar.y + bar.height - 4 && said.y + said.height < PHONE.height / 2, `the outcome is at ${said.y}`);
    await shoot(page, "phone-after", false);
    // Whoever moves the view keeps it.
    await page.click("#go");
    await page.waitForSelector(".lane-a .token.newest");
    await page.mouse.wheel(0, -4000);
    await page.waitForFunction(() => scrollY === 0);
    await settle(page);
    assert.equal(await page.evaluate(() => scrollY), 0);
    await page.context().close();
  },

  async "equal numbers of passes are said in words"() {
    const page = await open();
    await fast(page);
    await page.selectOption("#decoder-a-name", "entropy");
    await page.selectOption("#decoder-b-name", "entropy");
    await generate(page);
    const said = await page.textContent("#outcome");
    assert.match(said, /^entropy took as many passes as entropy \(\d+\) and /);
    assert.ok(!said.includes("1.0×"), said);
    await page.context().close();
  },

  async "the matrix is of words, never of ends, never empty"() {
    const page = await open();
    if ((await page.inputValue("#decoder-a-name")) !== "demask") return "this model has no predictor";
    await fast(page);
    await alone(page);
    for (const prompt of [PROMPT, "Sort: Zoe, Adam, Mia", "What is 2 + 2?"]) {
      await generate(page, prompt);
      const words = await count(page, ".lane-a .token:not(.end)");
      const most = await steps(page);
      let seen = 0;
      for (let step = 0; step <= most; step++) {
        await page.locator("#scrub").fill(String(step));
        if (!(await page.isVisible("#matrix"))) continue;
        seen++;
        const [, size, largest] = /matrix of (\d+) masked .* largest value is (.*)$/.exec(await page.getAttribute("#matrix", "aria-label"));
        assert.ok(size > 1 && size <= words, `a matrix of ${size} where the text has ${words} tokens`);
        assert.ok(Number(largest) > 0, `a matrix of nothing but ${largest}`);
        // No row is a place without a word.
        await page.focus("#matrix");
        for (let row = 0; row < size; row++) {
          assert.doesNotMatch(await page.textContent("#cell"), /place \d+/);
          await page.keyboard.press("ArrowDown");
        }
        await page.evaluate(() => document.activeElement.blur());
      }
      assert.ok(seen > 0, `no matrix of ${prompt}`);
    }
    await page.context().close();
  },

  async "lines end where the text's lines end"() {
    const page = await open();
    await page.check("input[value=gaps]", { force: true });
    await page.fill("#text", "1 2 3\n4 5 6");
    await page.click("#go");
    await page.waitForSelector(".lane-a .token[aria-pressed]");
    const rows = await page.$$eval(".lane-a .token", (chips) => chips.map((chip) => [chip.textContent.trim(), chip.offsetTop]));
    const first = rows.find(([text]) => text.includes("1"));
    const second = rows.find(([text]) => text.includes("4"));
    if (!rows.some(([text]) => text.includes("⏎"))) return "this model's tokens have no line ends";
    assert.ok(second[1] > first[1] + 10, JSON.stringify(rows));
    await page.context().close();
  },

  async "a verdict stays while the prompt is edited"() {
    const page = await open();
    if (await page.isHidden("#tasks")) return "this model has no tasks";
    await fast(page);
    await page.selectOption("#task", "grid");
    await page.waitForFunction(() => document.getElementById("text").value.includes("\n"));
    await generate(page, null);
    await page.waitForSelector(".lane-a .verdict:not([hidden])");
    const said = await page.textContent(".lane-a .verdict");
    assert.match(said, /(Right|Wrong) Checked the square, by its rule of grid problem \d+/);
    const text = await page.inputValue("#text");
    await page.fill("#text", `${text} please`);
    assert.equal(await page.textContent(".lane-a .verdict"), said);
    assert.ok(await page.isVisible(".lane-a .verdict"));
    // The same words again are the same problem.
    await page.fill("#text", text);
    await generate(page, null);
    await page.waitForSelector(".lane-a .verdict:not([hidden])");
    assert.equal(await page.textContent(".lane-a .verdict"), said);
    await page.context().close();
  },

  async "an address repeats a run"() {
    const page = await open();
    await fast(page);
    await page.click("summary:text('More settings')");
    await page.fill("#seed", "7");
    await page.fill("#temperature", "0.8");
    await page.selectOption("#decoder-b-name", "random");
    await generate(page, "Tom has 3 pens & 4 cups.\nHow many?");
    const before = [await tokens(page, ".lane-a"), await tokens(page, ".lane-b")];
    const address = await page.inputValue("#share-link");
    assert.equal(address, page.url());
    const other = await visit(address);
    await connected(other);
    await settle(other);
    assert.deepEqual([await tokens(other, ".lane-a"), await tokens(other, ".lane-b")], before);
    assert.equal(await other.inputValue("#seed"), "7");
    // Another address in the same tab is another run.
    await other.evaluate(() => (location.hash = location.hash.replace("seed=7", "seed=8")));
    await other.waitForFunction(() => document.getElementById("seed").value === "8");
    await settle(other);
    await page.context().close();
    await other.context().close();
  },

  async "a frame shows the stage alone"() {
    const page = await open();
    const frame = await page.inputValue("#share-frame");
    if (!frame) return "there was no run";
    const source = /src="([^"]*)"/.exec(frame)[1];
    assert.ok(source.startsWith(`${url}/embed#`), source);
    const inner = await visit(source);
    await connected(inner);
    await settle(inner);
    assert.ok(await inner.isHidden("#ask"));
    assert.ok(await inner.isVisible(".lane.lane-a"));
    assert.ok(await inner.isVisible("#whole-page"));
    await shoot(inner, "embed");
    const policy = async (address) => (await (await fetch(address)).headers.get("content-security-policy"));
    assert.match(await policy(`${url}/embed`), /frame-ancestors 'self'$/);
    assert.match(await policy(`${url}/`), /frame-ancestors 'none'$/);
    await page.context().close();
    await inner.context().close();
  },

  async "a saved replay is the same stage"() {
    const address = pathToFileURL(process.env.REPLAY).href;
    const colours = (page) =>
      page.evaluate(() => [document.body, document.querySelector(".lane.lane-a"), document.querySelector(".lane.lane-a h2")].map((node) => [getComputedStyle(node).backgroundColor, getComputedStyle(node).color]));
    for (const scheme of ["light", "dark"]) {
      const page = await visit(address, { colorScheme: scheme, bare: true });
      await page.waitForSelector(".lane-b .token.committed");
      const served = await open(DESKTOP, scheme);
      await fast(served);
      await generate(served);
      assert.deepEqual(await colours(page), await colours(served));
      assert.equal(await count(page, ".lane"), 2);
      assert.equal(await count(page, "#ask"), 0);
      // What was asked, without the chat template around it.
      assert.match(await page.textContent("#prompt-text"), /^Tom has .* now\?$/);
      await page.locator("#scrub").fill("1");
      assert.ok((await count(page, ".lane-a .token.newest")) > 0);
      assert.ok(await page.isVisible("#matrix"));
      assert.deepEqual(await violations(page), []);
      await shoot(page, `replay-${scheme}`);
      await page.context().close();
      await served.context().close();
    }
    const moving = await visit(address, { motion: "no-preference" });
    await settle(moving);
    await moving.context().close();
  },

  async "what a step costs besides its pass is told"() {
    const page = await open();
    await fast(page);
    await page.uncheck("#race");
    await page.selectOption("#decoder-a-name", "punt");
    await generate(page);
    const [, passes] = await page.$$eval(".lane-a .numbers dd", (all) => all.map((dd) => Number(dd.textContent)));
    assert.match(await page.textContent(".lane-a .numbers"), /passes/);
    assert.ok(passes > (await steps(page)), `${passes} passes`);
    await page.context().close();
  },

  async "axe finds nothing serious"() {
    for (const viewport of [DESKTOP, PHONE]) {
      for (const scheme of ["light", "dark"]) {
        const page = await open(viewport, scheme, { bare: true });
        await fast(page);
        await generate(page, null);
        assert.deepEqual(await violations(page), [], `${viewport.width} ${scheme}`);
        for (const closed of await page.locator("details:not([open]) > summary").all()) if (await closed.isVisible()) await closed.click();
        await page.locator("#scrub").fill("1");
        assert.deepEqual(await violations(page), [], `${viewport.width} ${scheme}, everything open`);
        await shoot(page, `opening-${viewport.width}-${scheme}`);
        await page.context().close();
      }
    }
  },

  async "the first key reaches what there is to see"() {
    const page = await open();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "stage");
    await page.keyboard.press("Tab");
    const reached = await page.evaluate(() => document.activeElement.id);
    assert.ok(["prompt-text", "play", "scrub"].includes(reached), reached);
    await page.context().close();
  },
};

await run(tests);
