// Filter of the table of checks, and what is known of one node. The page says the same without it.
const data = JSON.parse(document.getElementById("data").textContent);
const nodes = new Map(Object.entries(data.nodes));
const rows = [...document.querySelectorAll("#checks tbody tr")].map(row => [row, row.textContent.toLowerCase()]);
const words = document.getElementById("words"), outcome = document.getElementById("outcome");
const shown = document.getElementById("shown"), one = document.getElementById("one");

function show() {
  const asked = words.value.trim(), parts = asked.toLowerCase().split(/\s+/);
  const known = nodes.get(asked);
  let count = 0;
  for (const [row, text] of rows) {
    const here = known ? row.cells[1].textContent === asked : parts.every(part => text.includes(part));
    row.hidden = !here || (outcome.value !== "" && row.dataset.outcome !== outcome.value);
    count += row.hidden ? 0 : 1;
  }
  shown.textContent = `${count} of ${rows.length} rows`;
  one.hidden = !known;
  if (known) {
    const [passed, ...traits] = known;
    one.textContent = [`${asked}: ${passed} checks passed`, ...traits.map(place => data.traits[place])].join(", ");
  }
}

function follow() {
  words.value = decodeURIComponent(location.hash.startsWith("#find=") ? location.hash.slice(6) : "");
  show();
  if (words.value) document.getElementById("filter").scrollIntoView();
}

document.getElementById("filter").hidden = false;
words.addEventListener("input", show);
outcome.addEventListener("change", show);
addEventListener("hashchange", follow);
follow();
