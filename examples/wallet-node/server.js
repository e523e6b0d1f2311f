// A small wallet service on node:http and pg. It knows nothing of Holdfast; any
// PostgreSQL with schema.sql and seed.sql will do.
//
//   DATABASE_URL  the database
//   PORT          the port on 127.0.0.1 to listen on (default 8080)
//   WITHDRAW      read-then-write or atomic (default)

import http from 'node:http'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
// An idle connection that the server ends is not the end of the program.
pool.on('error', (err) => console.error(`idle connection: ${err.message}`))

// Refused is an answer with a status below 500.
class Refused extends Error {
  constructor (status, title) {
    super(title)
    this.status = status
  }
}

// Each withdraw takes an amount out of an account and returns the new balance.
const withdrawals = {
  // Reads the balance and writes it back. While this program waits for the
  // first answer, it serves other requests, and they read the same balance.
  'read-then-write': async (account, amount) => {
    const { rows } = await pool.query('SELECT balance FROM accounts WHERE id = $1', [account])
    if (rows.length === 0) throw new Refused(404, 'there is no such account')
    if (rows[0].balance < amount) throw new Refused(422, 'the balance is too low')
    const balance = rows[0].balance - amount
    await pool.query('UPDATE accounts SET balance = $2 WHERE id = $1', [account, balance])
    return balance
  },

  // Lets the database do the arithmetic and the check, in one statement.
  atomic: async (account, amount) => {
    const { rows } = await pool.query(
      'UPDATE accounts SET balance = balance - $2 WHERE id = $1 AND balance >= $2 RETURNING balance',
      [account, amount])
    if (rows.length === 1) return rows[0].balance
    const found = await pool.query('SELECT 1 FROM accounts WHERE id = $1', [account])
    throw found.rows.length === 0
      ? new Refused(404, 'there is no such account')
      : new Refused(422, 'the balance is too low')
  }
}

async function readAmount (req) {
  let text = ''
  for await (const chunk of req) {
    text += chunk
    if (text.length > 65536) throw new Refused(413, 'the request is too large')
  }
  let amount
  try {
    ({ amount } = JSON.parse(text))
  } catch {
    throw new Refused(400, 'the request is not JSON')
  }
  if (!Number.isInteger(amount) || amount <= 0) throw new Refused(400, 'amount must be a whole number above 0')
  return amount
}

async function route (req, withdraw) {
  if (req.method === 'GET' && req.url === '/healthz') {
    await pool.query('SELECT 1')
    return { status: 'ok' }
  }
  const match = /^\/accounts\/(\d{1,9})\/withdraw$/.exec(req.url)
  if (req.method !== 'POST' || !match) throw new Refused(404, 'there is nothing here')
  return { balance: await withdraw(Number(match[1]), await readAmount(req)) }
}

function answer (res, status, type, body) {
  res.writeHead(status, { 'Content-Type': type })
  res.end(JSON.stringify(body))
}

const variant = process.env.WITHDRAW || 'atomic'
if (!Object.hasOwn(withdrawals, variant)) {
  console.error(`WITHDRAW=${variant} is not known: use one of ${Object.keys(withdrawals).join(', ')}`)
  process.exit(1)
}

const server = http.createServer((req, res) => {
  route(req, withdrawals[variant]).then(
    (body) => answer(res, 200, 'application/json', body),
    (err) => {
      const status = err.status ?? 500
      if (status === 500) console.error(err)
      answer(res, status, 'application/problem+json', {
        title: status === 500 ? 'Internal Server Error' : err.message,
        status,
        sqlstate: err instanceof pg.DatabaseError ? err.code : undefined
      })
    })
})

const port = Number(process.env.PORT || 8080)
server.listen(port, '127.0.0.1', () => console.log(`wallet listens on http://127.0.0.1:${port}`))

process.on('SIGTERM', () => {
  server.close(() => pool.end())
  server.closeIdleConnections()
})
