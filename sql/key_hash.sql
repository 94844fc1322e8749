--
-- The stored hash of keys means the same in every database: a dump keeps it,
-- but no OIDs
--
CREATE SCHEMA key_hash;
SET search_path = key_hash;
SET timezone = 'UTC';
SET client_min_messages = warning;

-- twice the same, with other OIDs, as after a restore
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE mood_restored AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN calm AS mood CHECK (VALUE <> 'happy');
CREATE DOMAIN calm_restored AS mood_restored CHECK (VALUE <> 'happy');
CREATE TYPE state AS (id int, mood mood);
CREATE TYPE state_restored AS (id int, mood mood_restored);
CREATE TYPE moods AS RANGE (subtype = mood);
CREATE TYPE moods_restored AS RANGE (subtype = mood_restored);
CREATE TABLE thing ();
CREATE TABLE thing_restored ();
CREATE TABLE event (id int, mood mood, calm calm, moods mood[], state state, span moods,
	class regclass, name text, at timestamptz NOT NULL);
CREATE TABLE event_restored (id int, mood mood_restored, calm calm_restored,
	moods mood_restored[], state state_restored, span moods_restored,
	class regclass, name text, at timestamptz NOT NULL);
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_stream('event_restored', event_time => 'at');
INSERT INTO event VALUES
	(1, 'sad', 'ok', '{ok,happy}', '(1,happy)', '[sad,ok]', 'thing', 'a', '2024-05-01'),
	(1, 'sad', 'ok', '{ok,happy}', '(1,happy)', '[sad,ok]', 'thing', 'a', '2024-05-01'),
	(2, 'happy', NULL, '{}', NULL, '(,)', 'thing', 'b', '2024-05-01');
INSERT INTO event_restored VALUES
	(1, 'sad', 'ok', '{ok,happy}', '(1,happy)', '[sad,ok]', 'thing_restored', 'a', '2024-05-01'),
	(1, 'sad', 'ok', '{ok,happy}', '(1,happy)', '[sad,ok]', 'thing_restored', 'a', '2024-05-01'),
	(2, 'happy', NULL, '{}', NULL, '(,)', 'thing_restored', 'b', '2024-05-01');

CREATE FUNCTION stored_hashes(v regclass) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT _key_hash FROM %s', storage)
	FROM tidemark.continuous_views WHERE view = v;
END $$;
DO $$
DECLARE
	key text;
	rows int;
	differing int;
BEGIN
	FOREACH key IN ARRAY '{id,mood,calm,moods,state,span,class,name}'::text[] LOOP
		PERFORM tidemark.create_continuous_view('v_' || key,
			format('SELECT %I, count(*) AS n FROM event GROUP BY 1', key), trigger => 'manual');
		PERFORM tidemark.create_continuous_view('r_' || key,
			format('SELECT %I, count(*) AS n FROM event_restored GROUP BY 1', key),
			trigger => 'manual');
		EXECUTE format('CALL tidemark.catch_up(%L)', 'v_' || key);
		EXECUTE format('CALL tidemark.catch_up(%L)', 'r_' || key);
		EXECUTE format('SELECT count(*) FROM v_%s', key) INTO rows;
		SELECT count(*) INTO differing FROM (
			SELECT stored_hashes(('v_' || key)::regclass)
			EXCEPT ALL SELECT stored_hashes(('r_' || key)::regclass)) d;
		RAISE INFO '%: % groups, % hashes differ', key, rows, differing;
	END LOOP;
END $$;

DROP SCHEMA key_hash CASCADE;
