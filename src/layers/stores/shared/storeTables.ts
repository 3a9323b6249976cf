/**
 * The store's operations as functions in PostgreSQL, one statement for each: a process that is stopped in the middle of one
 * holds no lock. The rows of the accounts are locked in the order of their names. Instants are those of the server.
 *
 * A function carries the version of its form in its name: processes of two releases may share a database.
 */
export const schema = `
create table if not exists holdfast_account (
  name text primary key, until_ms bigint,
  spent_requests bigint not null default 0, spent_tokens bigint not null default 0, spent_nano bigint not null default 0,
  reserved_requests bigint not null default 0, reserved_tokens bigint not null default 0, reserved_nano bigint not null default 0
);
create index if not exists holdfast_account_until on holdfast_account (until_ms);
create table if not exists holdfast_lease (
  account text not null, id text not null, requests bigint not null, tokens bigint not null, nano bigint not null,
  until_ms bigint not null, primary key (account, id)
);
create index if not exists holdfast_lease_until on holdfast_lease (account, until_ms);
create table if not exists holdfast_settled (id text primary key, until_ms bigint not null);
create index if not exists holdfast_settled_until on holdfast_settled (until_ms);
create table if not exists holdfast_known (
  key text primary key, version bigint not null, value text, until_ms bigint not null
);
create index if not exists holdfast_known_until on holdfast_known (until_ms);

create or replace function holdfast_now_1() returns bigint language sql volatile as $$
  select (extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

create or replace function holdfast_drop_1(p_account text, p_id text, p_now bigint) returns void language plpgsql as $$
declare gone record;
begin
  with dropped as (
    delete from holdfast_lease where account = p_account and (id = p_id or until_ms <= p_now)
    returning requests, tokens, nano
  )
  select coalesce(sum(requests), 0) as requests, coalesce(sum(tokens), 0) as tokens, coalesce(sum(nano), 0) as nano
  into gone from dropped;
  update holdfast_account set reserved_requests = reserved_requests - gone.requests,
    reserved_tokens = reserved_tokens - gone.tokens, reserved_nano = reserved_nano - gone.nano
  where name = p_account and gone.requests + gone.tokens + gone.nano > 0;
end $$;

create or replace function holdfast_lock_1(p_accounts jsonb) returns void language plpgsql as $$
begin
  insert into holdfast_account (name, until_ms)
    select a ->> 'name', (a ->> 'until')::bigint from jsonb_array_elements(p_accounts) a order by 1
    on conflict (name) do nothing;
  perform 1 from holdfast_account where name in (select a ->> 'name' from jsonb_array_elements(p_accounts) a)
    order by name for update;
end $$;

create or replace function holdfast_hold_1(
  p_account text, p_id text, p_requests bigint, p_tokens bigint, p_nano bigint, p_until bigint
) returns void language plpgsql as $$
begin
  update holdfast_lease set until_ms = p_until where account = p_account and id = p_id;
  if found then return; end if;
  insert into holdfast_lease values (p_account, p_id, p_requests, p_tokens, p_nano, p_until);
  update holdfast_account set reserved_requests = reserved_requests + p_requests,
    reserved_tokens = reserved_tokens + p_tokens, reserved_nano = reserved_nano + p_nano where name = p_account;
end $$;

create or replace function holdfast_standings_1(p_accounts jsonb) returns jsonb language sql volatile as $$
  select coalesce(jsonb_agg(jsonb_build_array(
    coalesce(h.spent_requests, 0), coalesce(h.spent_tokens, 0), coalesce(h.spent_nano, 0),
    coalesce(h.reserved_requests, 0), coalesce(h.reserved_tokens, 0), coalesce(h.reserved_nano, 0)) order by a.at), '[]')
  from jsonb_array_elements(p_accounts) with ordinality a(account, at)
  left join holdfast_account h on h.name = a.account ->> 'name'
$$;

create or replace function holdfast_reserve_1(
  p_id text, p_accounts jsonb, p_requests bigint, p_tokens bigint, p_nano bigint, p_lease bigint
) returns jsonb language plpgsql as $$
declare at_ms bigint; one jsonb; stands holdfast_account; fits boolean;
begin
  perform holdfast_lock_1(p_accounts);
  at_ms := holdfast_now_1();
  fits := not exists (select 1 from holdfast_settled where id = p_id);
  for one in select * from jsonb_array_elements(p_accounts) loop
    perform holdfast_drop_1(one ->> 'name', null, at_ms);
    select * into stands from holdfast_account where name = one ->> 'name';
    fits := fits
      and coalesce(stands.spent_requests + stands.reserved_requests < (one ->> 'requests')::bigint
        and stands.spent_requests + stands.reserved_requests + p_requests <= (one ->> 'requests')::bigint, true)
      and coalesce(stands.spent_tokens + stands.reserved_tokens < (one ->> 'tokens')::bigint
        and stands.spent_tokens + stands.reserved_tokens + p_tokens <= (one ->> 'tokens')::bigint, true)
      and coalesce(stands.spent_nano + stands.reserved_nano < (one ->> 'nano')::bigint
        and stands.spent_nano + stands.reserved_nano + p_nano <= (one ->> 'nano')::bigint, true);
  end loop;
  if fits then
    for one in select * from jsonb_array_elements(p_accounts) loop
      perform holdfast_hold_1(one ->> 'name', p_id, p_requests, p_tokens, p_nano, at_ms + p_lease);
    end loop;
  end if;
  return jsonb_build_object('admitted', fits, 'standings', holdfast_standings_1(p_accounts));
end $$;

create or replace function holdfast_settle_1(
  p_id text, p_accounts jsonb, p_requests bigint, p_tokens bigint, p_nano bigint, p_remember bigint
) returns jsonb language plpgsql as $$
declare at_ms bigint; one jsonb; is_first boolean;
begin
  perform holdfast_lock_1(p_accounts);
  at_ms := holdfast_now_1();
  insert into holdfast_settled values (p_id, at_ms + p_remember) on conflict (id) do nothing;
  is_first := found;
  for one in select * from jsonb_array_elements(p_accounts) loop
    perform holdfast_drop_1(one ->> 'name', p_id, at_ms);
    if is_first then
      update holdfast_account set spent_requests = spent_requests + p_requests, spent_tokens = spent_tokens + p_tokens,
        spent_nano = spent_nano + p_nano where name = one ->> 'name';
    end if;
  end loop;
  return holdfast_standings_1(p_accounts);
end $$;

create or replace function holdfast_renew_1(p_reserves jsonb) returns void language plpgsql as $$
declare at_ms bigint; one jsonb; account jsonb;
begin
  perform holdfast_lock_1((select coalesce(jsonb_agg(distinct a), '[]')
    from jsonb_array_elements(p_reserves) r, jsonb_array_elements(r -> 'accounts') a));
  at_ms := holdfast_now_1();
  for one in select * from jsonb_array_elements(p_reserves) loop
    if not exists (select 1 from holdfast_settled where id = one ->> 'id') then
      for account in select * from jsonb_array_elements(one -> 'accounts') loop
        perform holdfast_hold_1(account ->> 'name', one ->> 'id', (one ->> 'requests')::bigint,
          (one ->> 'tokens')::bigint, (one ->> 'nano')::bigint, at_ms + (one ->> 'lease')::bigint);
      end loop;
    end if;
  end loop;
end $$;

create or replace function holdfast_read_1(p_accounts jsonb) returns jsonb language plpgsql as $$
declare at_ms bigint; one jsonb;
begin
  perform holdfast_lock_1(p_accounts);
  at_ms := holdfast_now_1();
  for one in select * from jsonb_array_elements(p_accounts) loop
    perform holdfast_drop_1(one ->> 'name', null, at_ms);
  end loop;
  return holdfast_standings_1(p_accounts);
end $$;

create or replace function holdfast_swap_1(p_known jsonb, p_writes jsonb, p_keep bigint) returns jsonb language plpgsql as $$
declare at_ms bigint; differing jsonb;
begin
  at_ms := holdfast_now_1();
  if jsonb_array_length(p_writes) > 0 then
    insert into holdfast_known select k ->> 'key', 0, null, at_ms + p_keep from jsonb_array_elements(p_known) k order by 1
      on conflict (key) do nothing;
    perform 1 from holdfast_known where key in (select k ->> 'key' from jsonb_array_elements(p_known) k)
      order by key for update;
  end if;
  select coalesce(jsonb_agg(jsonb_build_object(
      'key', k ->> 'key', 'version', coalesce(h.version, 0), 'value', h.value)), '[]')
    into differing from jsonb_array_elements(p_known) k left join holdfast_known h on h.key = k ->> 'key'
    where coalesce(h.version, 0) <> (k ->> 'version')::bigint;
  if jsonb_array_length(differing) = 0 then
    update holdfast_known h set version = h.version + 1, value = w ->> 'value', until_ms = at_ms + p_keep
      from jsonb_array_elements(p_writes) w where h.key = w ->> 'key';
  end if;
  return jsonb_build_object('done', jsonb_array_length(differing) = 0, 'at', at_ms, 'current', differing);
end $$;

create or replace function holdfast_sweep_1() returns void language plpgsql as $$
declare at_ms bigint := holdfast_now_1();
begin
  delete from holdfast_settled where id in
    (select id from holdfast_settled where until_ms <= at_ms for update skip locked);
  delete from holdfast_account where name in
    (select name from holdfast_account where until_ms <= at_ms for update skip locked);
  delete from holdfast_lease l where until_ms <= at_ms
    and not exists (select 1 from holdfast_account where name = l.account);
  delete from holdfast_known where key in
    (select key from holdfast_known where until_ms <= at_ms for update skip locked);
end $$;
`
