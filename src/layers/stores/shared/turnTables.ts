/**
 * Journals of turns in PostgreSQL. A turn has an epoch: whoever takes it up counts it on, and every write names its own, so
 * that an owner who was frozen and has lost the turn writes nothing any more.
 */
export const turnTables: ReadonlyArray<string> = [
  `create table if not exists holdfast_turn (
    turn text primary key, status text not null, created_at bigint not null, changed_at bigint not null, epoch bigint not null,
    holder text, held_until bigint, waits_for text, restarts integer not null default 0, facts bigint not null default 0
  )`,
  `create table if not exists holdfast_step (
    turn text not null, key text not null, state text not null, value text, at bigint not null, ordinal bigserial,
    primary key (turn, key)
  )`,
  `create table if not exists holdfast_stream (
    turn text not null, key text not null, text text, ordinal bigserial, primary key (turn, ordinal)
  )`,
  `create table if not exists holdfast_answer (
    turn text not null, key text not null, value text not null, at bigint not null, primary key (turn, key)
  )`
]

/** The instant of the server, epoch milliseconds: leases of turns are counted by one clock. */
export const serverNow = "(extract(epoch from clock_timestamp()) * 1000)::bigint"

/** A row when $1 is still held under the epoch $2. */
const mine = "select 1 from holdfast_turn where turn = $1 and epoch = $2 for share"

export const statements = {
  note: `with mine as (${mine})
    insert into holdfast_step (turn, key, state, value, at) select $1, $3, $4, $5, ${serverNow} from mine
    on conflict (turn, key) do update set state = excluded.state, value = excluded.value, at = excluded.at returning 1`,
  forgetStream: `with mine as (${mine}), gone as (
      delete from holdfast_stream where turn = $1 and key = $3 and exists (select 1 from mine)
    ) select 1 from mine`,
  tell: `with mine as (${mine})
    insert into holdfast_stream (turn, key, text) select $1, $3, $4 from mine returning 1`,
  waits: `update holdfast_turn set waits_for = $3 where turn = $1 and epoch = $2 returning 1`,
  renew: `update holdfast_turn set held_until = ${serverNow} + $3::bigint where turn = $1 and epoch = $2 returning 1`,
  release: `update holdfast_turn set held_until = null, holder = null where turn = $1 and epoch = $2`,
  facts: `select (select count(*) from holdfast_step where turn = $1 and state = 'done')
    + (select count(*) from holdfast_answer where turn = $1)
    + (select coalesce(sum((value::jsonb ->> 'facts')::bigint), 0) from holdfast_step
       where turn = $1 and state = 'begun' and value like '{%') as facts`,
  take: `update holdfast_turn set status = 'running', holder = $2, held_until = ${serverNow} + $3::bigint, epoch = epoch + 1,
    restarts = $4, facts = $5, changed_at = ${serverNow}, waits_for = null where turn = $1 returning epoch`
}
