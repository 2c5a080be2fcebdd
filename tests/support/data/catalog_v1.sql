BEGIN TRANSACTION;
CREATE TABLE archive (
	archive_id TEXT NOT NULL, 
	clock INTEGER NOT NULL, 
	last_episode INTEGER NOT NULL, 
	PRIMARY KEY (archive_id)
);
INSERT INTO "archive" VALUES('d413d58c-87aa-48cd-9811-728161186c4e',15,7);
CREATE TABLE embedding (
	seq INTEGER NOT NULL, 
	space_id INTEGER NOT NULL, 
	episode_row INTEGER NOT NULL, 
	digest TEXT, 
	count INTEGER, 
	vectors BLOB, 
	PRIMARY KEY (seq), 
	UNIQUE (episode_row, space_id, digest), 
	FOREIGN KEY(space_id) REFERENCES space (id)
);
INSERT INTO "embedding" VALUES(4,1,1,'digest-00000000000000000000000000000000',1,X'766563746F722031');
INSERT INTO "embedding" VALUES(6,1,3,'digest-00000000000000000000000000000002',1,X'766563746F722033');
INSERT INTO "embedding" VALUES(7,1,4,'digest-00000000000000000000000000000003',1,X'766563746F722034');
INSERT INTO "embedding" VALUES(8,1,5,'digest-00000000000000000000000000000004',1,X'766563746F722035');
INSERT INTO "embedding" VALUES(10,1,7,'digest-00000000000000000000000000000006',1,X'766563746F722037');
INSERT INTO "embedding" VALUES(12,1,6,NULL,NULL,NULL);
INSERT INTO "embedding" VALUES(14,1,2,NULL,NULL,NULL);
CREATE TABLE episode (
	id INTEGER NOT NULL, 
	uid TEXT NOT NULL, 
	root_id INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	episode_id TEXT NOT NULL, 
	env_id TEXT NOT NULL, 
	length INTEGER NOT NULL, 
	total_reward DOUBLE, 
	success BOOLEAN, 
	digest TEXT NOT NULL, 
	size INTEGER NOT NULL, 
	mtime_ns INTEGER NOT NULL, 
	metadata TEXT NOT NULL, 
	layout_id INTEGER NOT NULL, 
	ingested_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (root_id, path, "key"), 
	UNIQUE (uid), 
	FOREIGN KEY(root_id) REFERENCES root (id), 
	FOREIGN KEY(layout_id) REFERENCES layout (id)
);
INSERT INTO "episode" VALUES(1,'9c6909e1dc58f8473b261fe1f5337e72',2,'episode_000000.wshard','','episode_000000','env-0',100,0.0,1,'digest-00000000000000000000000000000000',10000,1700000000000000000,'{"seed":0,"task":"pick up the cube 0"}',1,'2026-11-20T11:25:17+00:00');
INSERT INTO "episode" VALUES(2,'adc21783d32f2029e00dae7ececd16f6',2,'episode_000001.wshard','','episode_000001','env-1',101,1.0,0,'changed',10001,1700000000000000001,'{"task":"push"}',1,'2026-11-20T11:25:17+00:00');
INSERT INTO "episode" VALUES(3,'872dd7f1bf9fe1dd05e2676872aca8dd',2,'episode_000002.wshard','','episode_000002','env-2',102,2.0,0,'digest-00000000000000000000000000000002',10002,1700000000000000002,'{"seed":2,"task":"pick up the cube 2"}',1,'2026-11-20T11:25:17+00:00');
INSERT INTO "episode" VALUES(4,'2ececabbd264f867eea6d94c8c7468c8',2,'episode_000003.wshard','','episode_000003','env-3',103,3.0,1,'digest-00000000000000000000000000000003',10003,1700000000000000003,'{"seed":3,"task":"pick up the cube 3"}',1,'2026-11-20T11:25:17+00:00');
INSERT INTO "episode" VALUES(5,'d8584e9196a1ae2293bad42658c4bb20',2,'episode_000004.wshard','','episode_000004','env-4',104,4.0,0,'digest-00000000000000000000000000000004',10004,1700000000000000004,'{"seed":4,"task":"pick up the cube 4"}',1,'2026-11-20T11:25:17+00:00');
INSERT INTO "episode" VALUES(7,'cb7151c6dbe55ef6d6cc03a61bd44dce',1,'own/episode_000006.wshard','','episode_000006','env-1',106,NULL,NULL,'digest-00000000000000000000000000000006',10006,1700000000000000006,'{"task":["\u00d6ffne die T\u00fcr","zweitens"],"nested":{"a":NaN,"b":[1,Infinity]},"odd":"\ud800"}',1,'2026-11-20T11:25:17+00:00');
CREATE TABLE lane (
	episode_row INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	count INTEGER NOT NULL, 
	moments BLOB, 
	PRIMARY KEY (episode_row, name), 
	FOREIGN KEY(episode_row) REFERENCES episode (id)
);
INSERT INTO "lane" VALUES(1,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(1,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(1,'signal/camera',100,NULL);
INSERT INTO "lane" VALUES(3,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(3,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(3,'signal/camera',100,NULL);
INSERT INTO "lane" VALUES(4,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(4,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(4,'signal/camera',100,NULL);
INSERT INTO "lane" VALUES(5,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(5,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(5,'signal/camera',100,NULL);
INSERT INTO "lane" VALUES(7,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(7,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(7,'signal/camera',100,NULL);
INSERT INTO "lane" VALUES(2,'action/joint',100,X'6D6F6D656E7473206F662074686520616374696F6E');
INSERT INTO "lane" VALUES(2,'signal/state',100,X'6D6F6D656E7473206F6620746865207374617465');
INSERT INTO "lane" VALUES(2,'signal/camera',100,NULL);
CREATE TABLE layout (
	id INTEGER NOT NULL, 
	definition TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (definition)
);
INSERT INTO "layout" VALUES(1,'[["action/joint","f32",[4]],["signal/camera","u8",[64,64,3]],["signal/state","f32",[39]]]');
CREATE TABLE migration (
	version INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	applied_at TEXT NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "migration" VALUES(1,'first tables','2026-11-20T11:25:17+00:00');
CREATE TABLE root (
	id INTEGER NOT NULL, 
	place TEXT NOT NULL, 
	inside BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (inside, place)
);
INSERT INTO "root" VALUES(1,'',1);
INSERT INTO "root" VALUES(2,'/data/set',0);
CREATE TABLE space (
	id INTEGER NOT NULL, 
	fingerprint TEXT NOT NULL, 
	family TEXT NOT NULL, 
	state TEXT NOT NULL, 
	definition TEXT NOT NULL, 
	checked_seq INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT space_state CHECK (state IN ('building', 'active', 'retired')), 
	UNIQUE (fingerprint)
);
INSERT INTO "space" VALUES(1,'fingerprint','family','active','{"embedder": "x"}',0);
CREATE TABLE tag (
	name TEXT NOT NULL, 
	episode_row INTEGER NOT NULL, 
	PRIMARY KEY (name, episode_row), 
	FOREIGN KEY(episode_row) REFERENCES episode (id)
);
INSERT INTO "tag" VALUES('good',1);
INSERT INTO "tag" VALUES('good',2);
INSERT INTO "tag" VALUES('good',3);
INSERT INTO "tag" VALUES('ünïcode %',3);
INSERT INTO "tag" VALUES('ünïcode %',4);
INSERT INTO "tag" VALUES('ünïcode %',5);
CREATE INDEX episode_length ON episode (length);
CREATE INDEX episode_layout ON episode (layout_id, id);
CREATE INDEX episode_env_length ON episode (env_id, length);
CREATE INDEX episode_episode_id ON episode (episode_id);
CREATE INDEX episode_env_reward_length ON episode (env_id, total_reward, length);
CREATE INDEX episode_digest ON episode (digest);
CREATE INDEX episode_reward_env ON episode (total_reward, env_id);
CREATE INDEX embedding_space_seq ON embedding (space_id, seq, count, episode_row);
CREATE INDEX tag_episode ON tag (episode_row, name);
COMMIT;
