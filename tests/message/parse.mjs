// Reads messages with mailparser and postal-mime: the files are its arguments, and JSON goes to standard output.
import { readFile } from "node:fs/promises";
import { simpleParser } from "mailparser";
import PostalMime from "postal-mime";

async function mailparser(content) {
    // Without these options it would write parts that the message lacks.
    const read = await simpleParser(content, { skipTextToHtml: true, skipHtmlToText: true, skipTextLinks: true });
    const mailboxes = (field) => read[field]?.value ?? [];
    return {
        from: mailboxes("from"),
        to: mailboxes("to"),
        reply_to: mailboxes("replyTo"),
        subject: read.subject,
        date: read.date,
        message_id: read.messageId,
        headers: Object.fromEntries(read.headers),
        text: read.text,
        html: read.html,
    };
}

async function postalMime(content) {
    const read = await PostalMime.parse(content);
    return {
        from: [read.from],
        to: read.to,
        reply_to: read.replyTo ?? [],
        subject: read.subject,
        date: read.date,
        message_id: read.messageId,
        headers: Object.fromEntries(read.headers.map(({ key, value }) => [key, value])),
        text: read.text,
        html: read.html,
    };
}

const readings = [];
for (const path of process.argv.slice(2)) {
    const content = await readFile(path);
    readings.push({ mailparser: await mailparser(content), "postal-mime": await postalMime(content) });
}
process.stdout.write(JSON.stringify(readings));
