// Runs one workload on the reference implementation and prints its figures (ms) as one line of JSON.
// usage: node driver.mjs FOLDER_WITH_NODE_MODULES catchup|pairs|list|cold|fold|agents ARGUMENT...
// Everything is the published packages'; only the agent is scripted: always idle, an inbox in memory.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [root, workload, ...args] = process.argv.slice(2)
const load = (name) => import(pathToFileURL(join(root, 'node_modules/@deepseek-ai', name, 'lib/index.js')).href)
const schedule = await load('dsh-schedule')
const now = () => performance.now()
const nextTask = () => new Promise((resolve) => setImmediate(resolve))

function check(holds, what) {
  if (!holds) throw new Error(what)
}

async function settled() { // everything that was set off in memory has come to rest
  for (let i = 0; i < 5; i++) await nextTask()
}

async function openHost() {
  const { Context, Service } = await load('cordis')
  const sessions = await load('dsh-session')
  const { createScope } = await load('dsh-scope')
  const ctx = new Context()
  await ctx.plugin(sessions.default)
  await ctx.plugin((await load('dsh-agent')).default)
  await ctx.plugin((await load('dsh-system-prompt')).default, {})
  await ctx.plugin((await load('dsh-tools')).default)
  await ctx.plugin(class extends Service { constructor(owner) { super(owner, 'sessionPersistence') } })
  ctx.on('session/flush', async () => { await Promise.resolve(); return true })
  await ctx.plugin(schedule)
  let driver
  await ctx.plugin({ name: 'driver', inject: ['tools', 'agents', 'sessions'], apply: (own) => { driver = own } })

  function agentOf(id, onFollowup) {
    const session = ctx.sessions.create(sessions.SessionId(id))
    const agent = {
      id: session.id, session, status: 'idle', options: {}, inbox: {}, acceptsNextStep: false,
      send() {}, cancel() {}, steer() {}, inject() {},
      whenIdle: async () => {},
      runMaintenance: (task) => task(new AbortController().signal),
      followup: onFollowup,
    }
    agent.ctx = createScope(driver, agent).ctx
    return agent
  }

  function call(agent, name, input) { // the tool itself, without the pipeline around it
    return ctx.tools.get(name, agent).execute(input, { agent, signal: new AbortController().signal })
  }
  return { ctx, agentOf, call }
}

function createOf(number, targetMs) {
  const prompt = `check the deploy log of service ${number} and report`
  const record = schedule.createAfterScheduleRecord(`schedule-${number}`, prompt, 1, targetMs - 1000)
  return { version: 1, operation: 'create', schedule: record }
}

const append = (agent, data) => agent.session.append('schedule/change', data)

function readLog(path) {
  return readFileSync(path, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
}

async function seated(count) {
  const host = await openHost()
  const agent = host.agentOf('main', () => {})
  const start = Date.now() + 864_000_000
  for (let i = 1; i <= count; i++) append(agent, createOf(i, start + i * 1000))
  host.ctx.agents.register(agent)
  await settled()
  return { ...host, agent }
}

function least(repetitions, measureOnce) {
  let best = Infinity
  for (let i = 0; i < repetitions; i++) best = Math.min(best, measureOnce())
  return best
}

const workloads = {
  async catchup(count) {
    const host = await openHost()
    let delivered = 0
    let finish
    const end = new Promise((resolve) => { finish = resolve })
    const agent = host.agentOf('main', () => { if (++delivered === Number(count)) finish(now()) })
    const start = Date.now() - 100_000
    // each target once, in no order: 7,919 is prime
    for (let i = 1; i <= count; i++) append(agent, createOf(i, start - ((i * 7919) % count) * 10))
    await settled()
    const begun = now()
    host.ctx.agents.register(agent)
    return { ms: await end - begun }
  },

  async pairs(count, pairs) {
    const { agent, call } = await seated(count)
    const begun = now()
    for (let i = 0; i < pairs; i++) {
      const made = await call(agent, 'schedule_create', { prompt: `extra ${i}`, after_seconds: 9000 })
      await settled()
      const ended = await call(agent, 'schedule_delete', { id: made.id })
      await settled()
      check(ended.deleted === true, 'not deleted')
    }
    return { 'ms a pair': (now() - begun) / pairs }
  },

  async list(count) {
    const { agent, call } = await seated(count)
    let best = Infinity
    for (let i = 0; i < 5; i++) {
      const begun = now()
      const views = await call(agent, 'schedule_list', {})
      Buffer.from(JSON.stringify(views))
      best = Math.min(best, now() - begun)
      check(views.length === Number(count), 'not all listed')
      await settled()
    }
    return { list: best }
  },

  async cold(path) {
    return {
      ms: least(7, () => {
        const begun = now()
        const { active } = schedule.foldScheduleEvents(readLog(path), 0)
        let earliest = Infinity
        for (const record of active) earliest = Math.min(earliest, Date.parse(record.scheduledAt))
        check(earliest > Date.now(), 'something is due')
        return now() - begun
      }),
    }
  },

  async fold(path) {
    const events = readLog(path)
    return {
      ms: least(7, () => {
        const begun = now()
        schedule.foldScheduleEvents(events, 0)
        return now() - begun
      }),
    }
  },

  async agents(count, lead = 3000 + count * 6) {
    const host = await openHost()
    const due = Date.now() + lead
    let delivered = 0
    let finish
    const end = new Promise((resolve) => { finish = resolve })
    for (let i = 0; i < count; i++) {
      const agent = host.agentOf(`agent-${i}`, () => {
        if (++delivered === Number(count)) finish(performance.timeOrigin + now())
      })
      append(agent, createOf(1, due))
      host.ctx.agents.register(agent)
    }
    await settled()
    if (Date.now() > due - 300) return workloads.agents(count, 2 * lead) // a slow machine was not ready in time
    return { 'last ms': await end - due }
  },
}

console.log(JSON.stringify(await workloads[workload](...args)))
process.exit(0)
