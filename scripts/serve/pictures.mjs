// The page as README shows it: the race it opens on, at its end, light on a desktop and dark on a phone. Both answers have to be
// right, and the first decoder the model's own choice.

import assert from "node:assert/strict";

import { connected, DESKTOP, PHONE, run, settle, shoot, url, visit } from "./page.mjs";

const opened = async (viewport, colorScheme) => {
  const page = await visit(url, { viewport, colorScheme });
  await connected(page);
  await settle(page);
  const verdicts = await page.$$eval(".lane .verdict", (all) => all.map((verdict) => verdict.textContent));
  assert.equal(verdicts.length, 2);
  for (const verdict of verdicts) assert.match(verdict, /^✓ Right/);
  const { data } = await (await fetch(`${url}/v1/models`)).json();
  assert.equal(await page.textContent(".lane-a h2"), data[0].strategy);
  return page;
};

await run({
  async "light, on a desktop"() {
    const page = await opened(DESKTOP, "light");
    await shoot(page, "page-light");
    await page.context().close();
  },

  async "dark, on a phone"() {
    const page = await opened(PHONE, "dark");
    await page.evaluate(() => document.getElementById("outcome").scrollIntoView());
    await shoot(page, "page-phone-dark", false);
    await page.context().close();
  },
});
