// Adds one to the number in a JSON file.
//
// usage: counter.mjs [--right] FILE
//
// Without --right it reads, adds and writes with nobody kept out meanwhile: two
// that run at once may both write the same number.
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { setTimeout } from "node:timers/promises";

const right = process.argv.includes("--right");
const path = process.argv.at(-1);

// write replaces the file as a whole, and has it on the disk when it returns.
function write(n) {
  const temp = `${path}.${randomUUID()}`;
  const f = openSync(temp, "wx");
  writeSync(f, JSON.stringify({ n }));
  fsyncSync(f);
  closeSync(f);
  renameSync(temp, path);
  const d = openSync(dirname(path), "r");
  fsyncSync(d);
  closeSync(d);
}

function add() {
  const n = JSON.parse(readFileSync(path)).n + 1;
  write(n);
  console.log(n);
}

// Node has no flock. A lock file that is made by link is taken by one process
// only; it is never broken by its age, and after a crash it is for a person to
// remove.
async function locked(f) {
  const lock = `${path}.lock`;
  const mine = `${lock}.${randomUUID()}`;
  const fd = openSync(mine, "wx");
  writeSync(fd, String(process.pid));
  closeSync(fd);
  try {
    for (;;) {
      try {
        linkSync(mine, lock);
        break;
      } catch (err) {
        if (err.code !== "EEXIST") throw err;
        await setTimeout(10);
      }
    }
  } finally {
    unlinkSync(mine);
  }
  try {
    f();
  } finally {
    unlinkSync(lock);
  }
}

if (right) await locked(add);
else add();
