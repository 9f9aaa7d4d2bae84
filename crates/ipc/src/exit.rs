//! Exit codes of all processes. docs/reference/exit-codes.md is generated from this table, and C has it in its header.

/// The other columns.
pub struct Row {
    /// Programs and processes that end with it.
    pub of: &'static str,
}

crate::table! {
    /// How a process ended. The word is the one in the log; it is empty where only people see the code.
    pub enum Exit: u8 as Row {
        Success = 0, "drained": "done; of a server: drained", { of: "reprise, workers" };
        Internal = 1, "": "internal error; requests were cut off at the end of a drain; verify found all pages in classic mode", { of: "reprise" };
        Different = 2, "": "a page differs from classic mode, or shows what is another visitor's", { of: "reprise verify" };
        NotMeasured = 3, "": "a target failed or cannot be measured; there is no result", { of: "reprise bench, psd" };
        Faulty = 4, "": "at least one finding is an error", { of: "reprise doctor" };
        Usage = 64, "": "the command line is wrong", { of: "reprise" };
        AddressInUse = 69, "": "the address or the state directory is in use", { of: "reprise" };
        NotBooted = 70, "the start failed": "the application, or PHP for it, did not start", { of: "reprise, reprise-php" };
        NotAsked = 71, "no snapshot and no loop": "the script ran to its end without asking for a snapshot or a loop", { of: "templates" };
        Permission = 77, "permission": "not permitted to this user, or to the one PHP or the front would run as", { of: "reprise, reprise-php" };
        Configuration = 78, "": "the configuration is wrong", { of: "reprise" };
        Recycle = 88, "recycle": "recycle: what a request left cannot be put back; a fresh clone takes its place", { of: "workers" };
        Unhealthy = 89, "unhealthy": "unhealthy: the worker cannot use the memory that its lane shares with the front", { of: "workers" };
        Descriptors = 90, "a request closed the worker's own descriptors": "a request closed descriptors that are the worker's own", { of: "workers" };
    }
}

impl Exit {
    /// The row of the code that a process ended with.
    pub fn of_code(code: i32) -> Option<Exit> {
        u32::try_from(code).ok().and_then(Exit::of)
    }
}
