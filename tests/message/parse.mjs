// Reads messages with mailparser: the files are its arguments, and JSON goes to standard output.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

// npm keeps it in tools/, where `import` does not look.
const { simpleParser } = createRequire(new URL("../../tools/", import.meta.url))("mailparser");

const readings = [];
for (const path of process.argv.slice(2)) {
    // Without these options it would write parts that the message lacks.
    const options = { skipTextToHtml: true, skipHtmlToText: true, skipTextLinks: true };
    const read = await simpleParser(await readFile(path), options);
    const mailboxes = (field) => (read[field]?.value ?? []).map(({ name, address }) => [name, address]);
    readings.push({
        sender: mailboxes("from"),
        recipients: mailboxes("to"),
        reply_to: mailboxes("replyTo"),
        subject: read.subject,
        date: read.date,
        message_id: read.messageId,
        headers: Object.fromEntries(read.headers),
        text: read.text,
        html: read.html,
    });
}
process.stdout.write(JSON.stringify(readings));
