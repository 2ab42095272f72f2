// What is forgiven to people, and what they are told of faults in JSON. All checks are those of packages/verifier/src.

// A step that is not taken here.
class NotChecked extends Error {}

// What is forgiven to people, as in sdcard/lenient.py: a byte order mark, white space around, lines that were wrapped.
const lenientDocument = (text) => text.replace(/^\ufeff/, "");
function lenientToken(text) {
  const trimmed = withoutEnd(lenientDocument(text).replace(/^[ \t\r\n]+/, ""));
  return trimmed.startsWith("{") ? trimmed.replace(/=\r?\n/g, "\n").replace(/"(?:[^"\\]|\\[^])*"?/g, joinLines) : joinLines(trimmed);
}
function joinLines(text) {
  const lines = text.split(/[\r\n]+/);
  const last = lines.pop();
  return lines.length === 0 ? text : lines.map((line) => line.replace(/^[ \t]+/, "").replace(/(?<![ \t])[ \t]+$/, "").replace(/=$/, "")).join("") + last.replace(/^[ \t]+/, "");
}

function withoutEnd(text) {
  let end = text.length;
  while (end > 0 && " \t\r\n".includes(text[end - 1])) end--;
  return text.slice(0, end);
}

const EXPECTED = {
  "Extra data": "text follows the end of the JSON value", name: "a name in double quotes is expected", ":": "a colon is expected",
  ",": "a comma or a closing bracket is expected", string: "a string has no closing quote", value: "a value is expected",
  control: "a string contains a line break or control character", escape: "JSON has no such escape sequence",
};

// Line, column and kind of what is not JSON. Of the text only punctuation is named.
function jsonFault(whole, place, said) {
  const text = withoutEnd(whole);
  const at = Math.min(place, text.length);
  if (!text) return "It is empty.";
  const before = withoutEnd(text.slice(0, at));
  const where = /^[\]}]/.test(text.slice(at, at + 1)) && before.endsWith(",") ? before.length - 1 : at;
  let line = 1, start = 0;
  for (let next = text.indexOf("\n"); next >= 0 && next < where; next = text.indexOf("\n", start)) {
    line++;
    start = next + 1;
  }
  return `Line ${line}, column ${codePoints(text.slice(start, where)) + 1}: ${jsonFaultAt(text.slice(where), said)}.`;
}

function jsonFaultAt(rest, said) {
  if (!withoutEnd(rest)) return "the text ends too early";
  if (rest.startsWith("\ufeff")) return "remove the byte order mark";
  if (/^(?:#|\/\/|\/\*)/.test(rest)) return "JSON has no comments";
  if (/^['\u2018\u2019\u201c\u201d\u201e]/.test(rest)) return "names and strings need straight double quotes";
  if (/^,[ \t\n\r]*[\]}]/.test(rest)) return "remove the comma before the closing bracket";
  return /^[{}[\]:,]/.test(rest) ? `\`${rest[0]}\` is unexpected: ${EXPECTED[said]}` : EXPECTED[said];
}

JsonReader.fault = jsonFault;

function tryOr(work, otherwise) {
  try {
    return work();
  } catch (problem) {
    if (problem instanceof Refused) return otherwise;
    throw problem;
  }
}
