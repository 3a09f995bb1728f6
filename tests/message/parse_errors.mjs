// Reads a list of pages as JSON, and writes the faults in the HTML of each as JSON.
import { parse } from "parse5";
import { text } from "node:stream/consumers";

const VOID = ["br", "meta", "wbr"];

/** The parse errors by the names of the HTML standard, and the tags that a browser would move, close or pass over. */
function faults(page) {
  const found = [];
  const report = ({ startLine, startCol }, what) => found.push(`${startLine}:${startCol} ${what}`);
  const tree = parse(page, { sourceCodeLocationInfo: true, onParseError: (error) => report(error, error.code) });
  let offset = 0;
  let closed = 0;
  const look = ({ tagName, sourceCodeLocation: place, childNodes = [] }) => {
    if (tagName && place) {
      if (place.startOffset < offset) report(place, `<${tagName}> is out of its place`);
      if (place.endTag) closed += 1;
      else if (!VOID.includes(tagName)) report(place, `<${tagName}> is not closed`);
      offset = place.startOffset;
    }
    childNodes.forEach(look);
  };
  look(tree);
  const tooMany = page.split("</").length - 1 - closed;
  if (tooMany) found.push(`end tags too many: ${tooMany}`);
  return found;
}

const pages = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(pages.map(faults)));
