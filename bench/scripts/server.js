// The pages of tests/apps/plain as a node program serves them: node server.js PORT PROCESSES LOG
// One process serves by itself; more are a cluster, whose first process serves nothing.
'use strict';
const cluster = require('cluster');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');

const [port, processes, log] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]];

function hello(answer) {
  send(answer, 'text/plain;charset=UTF-8', 'Hello World!');
}

function json(answer) {
  const records = [];
  for (let i = 1; i <= 40; i++) {
    records.push({
      id: i, name: `Record number ${i}`, slug: `record-${i}`, score: i * 37 % 101 / 4,
      active: i % 3 !== 0, tags: [`tag${i % 7}`, `tag${i % 5}`],
      created: new Date((1600000000 + i * 86400) * 1000).toISOString().slice(0, 19) + '+00:00', place: `Shelf ${i % 9}`, note: null,
    });
  }
  send(answer, 'application/json', JSON.stringify(records));
}

function blog(answer) {
  let text = '';
  for (let i = 0; i < 108000; i++) {
    text += String.fromCharCode(97 + Math.floor(Math.random() * 26));
  }
  const file = `/dev/shm/blog${crypto.randomBytes(8).toString('hex')}`;
  fs.writeFile(file, text, (failed) => {
    if (failed) return fail(answer, failed);
    fs.readFile(file, (failed, read) => {
      if (failed) return fail(answer, failed);
      fs.unlink(file, (failed) => failed ? fail(answer, failed) : send(answer, 'text/plain;charset=UTF-8', read));
    });
  });
}

const pages = {
  '/': hello, '/json.php': json, '/blog.php': blog, '/worker_json.php': json, '/worker_blog.php': blog,
};

function send(answer, type, body) {
  answer.writeHead(200, {'Content-Type': type, 'Content-Length': Buffer.byteLength(body)});
  answer.end(body);
}

function fail(answer, error) {
  answer.writeHead(500, {'Content-Type': 'text/plain'});
  answer.end(String(error));
}

// A line per request, as the other servers write; many at once, which is what costs least.
let lines = '';
function flush() {
  if (lines !== '') {
    fs.appendFileSync(log, lines);
    lines = '';
  }
}

function serve() {
  setInterval(flush, 100);
  http.createServer((request, answer) => {
    answer.on('finish', () => {
      lines += `${request.socket.remoteAddress} - - [${new Date().toISOString()}] "${request.method} ${request.url} HTTP/${request.httpVersion}" ${answer.statusCode} -\n`;
      if (lines.length > 65536) flush();
    });
    const page = pages[request.url.split('?', 1)[0]];
    if (page === undefined) {
      answer.writeHead(404, {'Content-Type': 'text/plain'});
      answer.end('no such page');
      return;
    }
    page(answer);
  }).listen({port, host: '127.0.0.1', backlog: 4096});
}

if (processes > 1 && cluster.isPrimary) {
  for (let i = 0; i < processes; i++) cluster.fork();
  // One that dies ends the run: the harness counts on all of them.
  cluster.on('exit', () => process.exit(1));
} else {
  serve();
}
