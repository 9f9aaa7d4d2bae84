//! The response to `status`. Numbers and words that workers wrote are `null` where they cannot be true.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::{object, word};

ipc::table! {
    /// What the server does.
    pub enum ServerState: u8 {
        Starting = 0, "starting": "no client is served yet";
        Serving, "serving": "it serves";
        Draining, "draining": "it was told to stop, and finishes what it has begun";
        Leaving, "leaving": "it was told to stop, and serves on for `shutdown_delay`";
    }
}

ipc::table! {
    /// What a generation is there for.
    pub enum Stage: u8 {
        Booting = 0, "booting": "it is made ready beside the one that serves";
        Serving, "serving": "new requests go to it";
        Draining, "draining": "the front finishes the requests that it has there";
        Ending, "ending": "its processes end";
        Killed, "killed": "its processes are killed, and not all of them are reaped";
    }
}

ipc::table! {
    /// How a lane runs its script.
    pub enum Mode: u8 {
        Classic = 0, "classic": "anew for each request";
        Snapshot, "snapshot": "from a snapshot";
        Worker, "worker": "in a loop of its own";
    }
}

ipc::table! {
    /// What a lane does.
    pub enum LaneState: u8 {
        Up = 0, "up": "it takes requests";
        Booting, "booting": "its template boots; requests run in classic mode";
        Failed, "failed": "its template has not booted, and is tried again; requests run in classic mode";
        Damaged, "damaged": "its shared memory is in disorder; its generation is replaced";
    }
}

word! { ServerState Stage Mode LaneState }

object! {
    /// A running server.
    pub struct Status {
        /// version of the server
        pub version: String,
        /// process id of the supervisor
        pub pid: u32,
        /// seconds since the supervisor began
        pub seconds: f64,
        /// a [word](#words)
        pub state: ServerState,
        /// the front; `null` between two
        #[serde(deserialize_with = "Option::deserialize")]
        pub front: Option<Front>,
        /// the generations of each application, by the application's name
        pub applications: BTreeMap<String, Vec<Generation>>,
        /// what the [cache of responses](../guides/cache.md) of each application has done, by the application's name. `reprise status` adds it: absent in what the control socket sends, and while no front answers
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub caches: Option<BTreeMap<String, Vec<CacheRule>>>,
        /// what the [data cache](../guides/data-cache.md) of each application that has one has done, by the application's name. `reprise status` adds it: absent in what the control socket sends, and an application is absent while it does not answer
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub data_caches: Option<BTreeMap<String, DataCache>>,
    }
}

object! {
    /// What a data cache has done, and what it holds, as processes of its application say.
    #[derive(Default)]
    pub struct DataCache {
        /// fetches that found a value
        pub hits: u64,
        /// fetches that found none
        pub misses: u64,
        /// values that were given out stale
        pub stale: u64,
        /// values stored
        pub stores: u64,
        /// requests that waited for a value that another computed
        pub waits: u64,
        /// values computed
        pub computed: u64,
        /// values that made room for others
        pub evicted: u64,
        /// values not stored, because no memory could be used again yet
        pub refused: u64,
        /// processes that died and whose leases were taken back
        pub swept: u64,
        /// values that it holds
        pub entries: u64,
        /// bytes of these values
        pub bytes: u64,
        /// bytes that it may use: `data_cache_memory`
        pub memory: u64,
        /// bytes of removed values that requests may still hold
        pub held: u64,
        /// who has had values longest; `null`: no request has one now
        #[serde(deserialize_with = "Option::deserialize")]
        pub holder: Option<DataHolder>,
        /// the store that it shares with other nodes; absent: it has none
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub store: Option<DataStore>,
    }
}

object! {
    /// The store that data caches of several nodes share: `data_cache_store`.
    #[derive(Default)]
    pub struct DataStore {
        /// whether it can be asked
        pub ready: bool,
        /// seconds since all changes of other nodes were known; `null`: they never were
        #[serde(deserialize_with = "Option::deserialize")]
        pub heard_seconds: Option<f64>,
        /// changes of which other nodes were not told yet
        pub untold: u64,
        /// requests of workers to it
        pub requests: u64,
        /// of those, the ones to which it had no reply
        pub failures: u64,
        /// values and messages in it whose signature was not right
        pub forged: u64,
    }
}

object! {
    /// The process whose request has had values of a data cache longest.
    #[derive(Default)]
    pub struct DataHolder {
        /// its process id
        pub pid: i32,
        /// seconds since its request got the first one
        pub seconds: f64,
        /// the lane of the worker, `classic` or a key; `null`: it is no worker, but perhaps the child of one
        #[serde(deserialize_with = "Option::deserialize")]
        pub lane: Option<String>,
        /// number of the worker in its lane
        #[serde(deserialize_with = "Option::deserialize")]
        pub slot: Option<usize>,
        /// method and target of its request
        #[serde(deserialize_with = "Option::deserialize")]
        pub request: Option<String>,
    }
}

object! {
    /// What the cache of responses has done with the requests of a rule.
    #[derive(Default)]
    pub struct CacheRule {
        /// the rule whose action has decided: its number and what it matches; `-`: none has
        pub rule: String,
        /// requests that got a stored response
        pub hit: u64,
        /// requests that got a stale one
        pub stale: u64,
        /// requests that got the response that another had asked for
        pub collapsed: u64,
        /// requests whose response was made, and stored
        pub stored: u64,
        /// requests whose response was made, and not stored
        pub miss: u64,
        /// requests for which there was a stored response that was not for them
        pub bypass: u64,
        /// the part of all of them for which nothing was made: `hit`, `stale` and `collapsed`
        pub ratio: f64,
        /// requests that wait now for a response which another has asked for
        pub waiting: u64,
    }
}

object! {
    /// The process that speaks HTTP.
    pub struct Front {
        /// its process id
        pub pid: i32,
        /// seconds since it was started
        pub seconds: f64,
        /// what it holds for slow clients
        pub spool: Spool,
    }
}

object! {
    /// What the front [holds for slow clients](../operations/spool.md), a quarter of a second ago.
    #[derive(Default)]
    pub struct Spool {
        /// bytes in memory
        pub memory: u64,
        /// bytes on disk
        pub disk: u64,
        /// responses so far that PHP wrote faster than their clients took them
        pub responses: u64,
        /// responses so far whose worker waited for the client, because of a limit
        pub full: u64,
        /// failures so far to write to the disk
        pub errors: u64,
    }
}

object! {
    /// A generation of an application.
    pub struct Generation {
        /// which of its application's, from 1
        pub generation: u32,
        /// a [word](#words)
        pub stage: Stage,
        /// seconds in that stage; `null` while it boots or serves
        #[serde(deserialize_with = "Option::deserialize")]
        pub stage_seconds: Option<f64>,
        /// process id of its prototype; `null` between two
        #[serde(deserialize_with = "Option::deserialize")]
        pub prototype: Option<i32>,
        /// its opcache, as its workers saw it last, every five seconds at most; absent: none has looked yet, or PHP has no opcache
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub opcache: Option<Opcache>,
        /// its workers that have crashed; absent: none has
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub crashes: Option<Crashes>,
        /// its lanes; the first is for classic mode
        pub lanes: Vec<Lane>,
    }
}

object! {
    /// Workers that have crashed, or ended with an error.
    #[derive(Default)]
    pub struct Crashes {
        /// how many
        pub count: u64,
        /// the last one: its process, how it ended, and what it ran
        pub last: String,
        /// seconds since that
        pub seconds: f64,
    }
}

object! {
    /// What the opcache of a generation holds. Numbers of 0 are those that it does not say, as one that is in files alone.
    #[derive(Default)]
    pub struct Opcache {
        /// bytes that scripts take
        pub used: u64,
        /// bytes of scripts that are not used any more: they come back with the next generation
        pub wasted: u64,
        /// bytes that there are: `opcache.memory_consumption`
        pub memory: u64,
        /// bytes that names and texts of scripts take
        pub strings: u64,
        /// bytes that there are for them: `opcache.interned_strings_buffer`
        pub strings_memory: u64,
        /// scripts that it holds
        pub scripts: u64,
        /// paths by which they are known
        pub keys: u64,
        /// paths that there may be: the next of opcache's prime numbers from `opcache.max_accelerated_files` on
        pub most_keys: u64,
    }
}

object! {
    /// A lane of a generation.
    pub struct Lane {
        /// its key: the script, for a snapshot of one host with scheme and host; `null` for the lane of classic mode
        #[serde(deserialize_with = "Option::deserialize")]
        pub script: Option<String>,
        /// a [word](#words)
        pub mode: Mode,
        /// a [word](#words)
        pub state: LaneState,
        /// whether a file that its boot has loaded has changed since, so that it serves something else than what lies there; absent: none that was looked at
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub outdated: Option<bool>,
        /// process id of its template, or of what else forks its workers; `null` without one, and for the lane of classic mode
        #[serde(deserialize_with = "Option::deserialize")]
        pub template: Option<i32>,
        /// requests in its queue. This key and the next two are absent while the lane has no queue
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub waiting: Option<Option<u32>>,
        /// workers recycled, by [reason](recycles.md)
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub recycles: Option<BTreeMap<String, Option<u64>>>,
        /// its workers
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        pub workers: Option<Vec<Worker>>,
    }
}

object! {
    /// A worker of a lane.
    pub struct Worker {
        /// its number in the lane, from 0
        pub slot: usize,
        /// its process id
        pub pid: i32,
        /// what it does: a [word](../operations/monitoring.md#reprise-status)
        pub state: String,
        /// seconds in that state
        #[serde(deserialize_with = "Option::deserialize")]
        pub state_seconds: Option<f64>,
        /// method and target of the request that it has; `null` without one
        #[serde(deserialize_with = "Option::deserialize")]
        pub request: Option<String>,
        /// requests that it has claimed
        #[serde(deserialize_with = "Option::deserialize")]
        pub requests: Option<u64>,
        /// seconds in each state so far, by the state's word, of all workers that have had the slot
        pub spent_seconds: BTreeMap<String, Option<f64>>,
        /// its rewinds
        pub rewinds: Rewinds,
        /// connections to other servers that it [keeps open](../guides/connections.md)
        #[serde(deserialize_with = "Option::deserialize")]
        pub kept_connections: Option<u32>,
        /// its processor time in seconds
        #[serde(deserialize_with = "Option::deserialize")]
        pub cpu_seconds: Option<f64>,
        /// memory that belongs to no file, in KiB; pages that it still shares with the process it was forked from count
        #[serde(deserialize_with = "Option::deserialize")]
        pub memory_kib: Option<u64>,
    }
}

object! {
    /// The rewinds of a worker.
    pub struct Rewinds {
        /// rewinds that scanned nothing
        #[serde(deserialize_with = "Option::deserialize")]
        pub fast: Option<u64>,
        /// rewinds that looked for written pages
        #[serde(deserialize_with = "Option::deserialize")]
        pub scanned: Option<u64>,
        /// pages that its rewinds have copied
        #[serde(deserialize_with = "Option::deserialize")]
        pub pages: Option<u64>,
    }
}

/// A key that may be absent: what it holds if it is there.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and units are public: programs of others read them.
    const PINNED: &str = r#"{"version":"1.2.3","pid":100,"seconds":12.5,"state":"serving","front":{"pid":101,"seconds":12.0,
            "spool":{"memory":1048576,"disk":131072,"responses":3,"full":1,"errors":0}},
        "applications":{"app":[
            {"generation":1,"stage":"draining","stage_seconds":0.5,"prototype":102,
                "crashes":{"count":2,"last":"worker 99 was killed by SIGSEGV without a request","seconds":1.5},"lanes":[
                {"script":null,"mode":"classic","state":"damaged","template":null,"waiting":null,"recycles":{"threads":2},"workers":[
                    {"slot":0,"pid":103,"state":"running","state_seconds":0.25,"request":"GET /","requests":7,
                    "spent_seconds":{"running":1.5,"reading":null},"rewinds":{"fast":5,"scanned":1,"pages":9},
                    "kept_connections":2,"cpu_seconds":0.75,"memory_kib":2048}]},
                {"script":"/index.php","mode":"snapshot","state":"booting","outdated":true,"template":104}]},
            {"generation":2,"stage":"booting","stage_seconds":null,"prototype":null,"lanes":[]}]},
        "caches":{"app":[{"rule":"1: prefix /blog","hit":6,"stale":1,"collapsed":1,"stored":1,"miss":1,"bypass":0,"ratio":0.8,"waiting":2}]},
        "data_caches":{"app":{"hits":9,"misses":8,"stale":7,"stores":6,"waits":5,"computed":4,"evicted":3,"refused":2,"swept":1,
            "entries":10,"bytes":1000,"memory":67108864,"held":500,
            "holder":{"pid":103,"seconds":0.5,"lane":"classic","slot":0,"request":"GET /"},
            "store":{"ready":true,"heard_seconds":0.25,"untold":4,"requests":12,"failures":1,"forged":2}}}}"#;

    /// A key that is renamed, lost or added, or written otherwise than before, is found.
    #[test]
    fn keys_and_units_are_pinned() {
        let status: Status = serde_json::from_str(PINNED).expect("a status");
        let worker = &status.applications["app"][0].lanes[0].workers.as_ref().expect("workers")[0];
        assert_eq!((worker.memory_kib, worker.spent_seconds["reading"]), (Some(2048), None));
        let written = serde_json::to_value(&status).expect("JSON");
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(PINNED).expect("JSON"));
    }

    /// A later server may say more; a key that is read must be there, even if it may be `null`.
    #[test]
    fn unknown_keys_are_ignored_and_missing_ones_named() {
        let longer = PINNED.replacen('{', r#"{"new": [1], "#, 1).replace(r#""slot""#, r#""colour": {}, "slot""#);
        assert_eq!(serde_json::from_str::<Status>(&longer).ok(), serde_json::from_str(PINNED).ok());
        let shorter = PINNED.replace(r#""template":null"#, r#""other":null"#);
        let error = serde_json::from_str::<Status>(&shorter).expect_err("no template").to_string();
        assert!(error.contains("missing field `template`"), "{error}");
    }
}
