// The board of claims: what the form says filters the rows, and stands in the address behind its ?.

const FIELDS = ["words", "paper", "verdict", "scale", "kind"];

/** The filter in an address, `?paper=glam&verdict=not+reproduced`; what it does not name is empty. */
function readFilter(search) {
  const named = new URLSearchParams(search);
  return Object.fromEntries(FIELDS.map(field => [field, named.get(field) ?? ""]));
}

/** The part of an address that `readFilter` reads. */
function writeFilter(filter) {
  return "?" + new URLSearchParams(FIELDS.filter(field => filter[field]).map(field => [field, filter[field]]));
}

/** Whether a row {paper, kind, text, verdicts: {scale: verdict}} passes: a scale alone asks for a verdict there. */
function fits(row, filter) {
  const verdicts = filter.scale ? [row.verdicts[filter.scale]] : Object.values(row.verdicts);
  const judged = verdicts.filter(word => word && !word.startsWith("not run"));
  const words = filter.words.toLowerCase().trim().replace(/\s+/g, " ");
  return (!filter.paper || row.paper === filter.paper) && (!filter.kind || row.kind === filter.kind)
    && (filter.verdict ? verdicts.includes(filter.verdict) : !filter.scale || judged.length > 0)
    && row.text.includes(words);
}

function startBoard() {
  const form = document.querySelector("form.filters"), status = form.querySelector("[role=status]");
  const scales = [...document.querySelectorAll("table.claims thead th")].slice(2).map(each => each.textContent);
  const rows = [...document.querySelectorAll("table.claims tbody tr")].map(element => {
    const cells = [...element.cells], verdicts = cells.slice(2).map(cell => cell.textContent.trim().slice(2));
    const text = element.textContent.toLowerCase().replace(/\s+/g, " ");
    return {element, text, paper: element.querySelector("b").textContent, kind: cells[1].textContent,
      verdicts: Object.fromEntries(scales.map((scale, place) => [scale, verdicts[place]]))};
  });
  const show = filter => {
    for (const row of rows) row.element.hidden = !fits(row, filter);
    status.textContent = `${rows.filter(row => !row.element.hidden).length} of ${rows.length} claims`;
  };
  const changed = () => {
    const filter = Object.fromEntries(FIELDS.map(field => [field, form.elements[field].value]));
    history.replaceState(null, "", writeFilter(filter));
    show(filter);
  };
  const filter = readFilter(location.search);
  for (const field of FIELDS) form.elements[field].value = filter[field];
  form.addEventListener("input", changed);
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", event => event.preventDefault());
  form.hidden = false;
  show(filter);
}

if (typeof document === "undefined") module.exports = {readFilter, writeFilter, fits};
else startBoard();
