//! The administrative actions that the audit log knows. A route's row names the one that it is; reading is none, and
//! work on cards has a history of its own.

macro_rules! actions {
    ($($action:ident = $name:literal;)*) => {
        /// Every administrative action there is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum AuditAction { $($action),* }

        impl AuditAction {
            pub const ALL: &[Self] = &[$(Self::$action),*];

            /// As the log shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$action => $name),* }
            }
        }
    };
}

actions! {
    Bootstrap = "user.bootstrap";
    LogIn = "auth.login";
    LogOut = "auth.logout";
    ChangePassword = "auth.password";
    CreateUser = "user.create";
    UpdateUser = "user.update";
    DeleteUser = "user.delete";
    EndSession = "session.end";
    EndSessions = "session.end_all";
    CreateKey = "api_key.create";
    UpdateKey = "api_key.update";
    RotateKey = "api_key.rotate";
    RevokeKey = "api_key.revoke";
    EnablePlugin = "plugin.enable";
    DisablePlugin = "plugin.disable";
    ReloadPlugin = "plugin.reload";
    RollBackPlugin = "plugin.rollback";
    ReleasePlugin = "plugin.release";
    UploadPlugin = "plugin.upload";
    RemovePlugin = "plugin.remove";
    PurgePlugin = "plugin.purge";
    DropPluginObject = "plugin.drop_object";
    ConfirmMigration = "plugin.confirm_migration";
    AcceptSigner = "plugin.accept_signer";
    SetPluginSettings = "plugin.settings";
    RescanPlugins = "plugin.rescan";
    SetLogLevel = "system.log-level";
    SetProxyRoutes = "proxy.routes";
    StartJob = "job.start";
    CancelJob = "job.cancel";
    ImportCards = "card.import";
    PurgeCard = "card.purge";
    RunUnattended = "tool.run_unattended";
    AskApproval = "approval.ask";
    Approve = "approval.approve";
    Deny = "approval.deny";
    UseApproval = "approval.use";
    CallTool = "tool.call";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_a_name_of_its_own() {
        for (i, act) in AuditAction::ALL.iter().enumerate() {
            assert!(AuditAction::ALL[i + 1..].iter().all(|other| other.name() != act.name()), "{act:?}");
        }
    }
}
