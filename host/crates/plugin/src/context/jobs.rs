//! Jobs that a plugin starts of its own.

use serde_json::Value;
use uuid::Uuid;

use super::PluginContext;
use crate::{agreement, arguments, fault::Fault, job::ARGS_LIMIT};
use cardinal_identity::auth::{caller::Caller, credential::Credential};
use cardinal_store::{
    error::StoreError,
    plugins::{self, jobs::NewPluginJob},
};

impl PluginContext {
    /// Queues one of the plugin's jobs for the call's user, or for the plugin's own outside of any; the job's id.
    pub async fn start_job(
        &self,
        caller: Option<&Caller>,
        request_id: &str,
        name: &str,
        args: &str,
    ) -> Result<Uuid, Fault> {
        let unknown = || Fault::NotFound(format!("The manifest declares no job `{name}`."));
        let job = self.identity.jobs.iter().find(|job| job.name == name).ok_or_else(unknown)?;
        let own;
        let caller = match caller {
            Some(caller) => caller,
            None => {
                own = Caller::plugin(self.service_user().await?, self.name());
                &own
            }
        };
        let scope = format!("plugin:{}:{}", self.name(), job.access().as_str());
        if !caller.holds(&scope) {
            return Err(Fault::Forbidden { detail: format!("This needs the scope `{scope}`."), scope: Some(scope) });
        }
        let args = read_args(args)?;
        let validator = agreement::job_validator(job).map_err(|refusal| Fault::Invalid(refusal.to_string()))?;
        if let (Some(validator), Value::Object(args)) = (&validator, &args)
            && let Some(complaints) = arguments::complaints(validator, args)
        {
            return Err(Fault::Invalid(complaints));
        }
        let internal = |error: serde_json::Error| Fault::Internal(error.into());
        let new = NewPluginJob {
            plugin: self.name(),
            name,
            resumable: job.resumable,
            user_id: caller.user_id,
            actor: &caller.actor(),
            credential: &serde_json::to_value(Credential::from_caller(caller)).map_err(internal)?,
            request_id,
            args: &args,
        };
        match plugins::jobs::queue(&self.services.core, &new).await {
            Ok(job) => Ok(job.id),
            Err(StoreError::Busy { detail, .. }) => Err(Fault::Busy(detail)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Arguments are an object; none are an empty one.
fn read_args(text: &str) -> Result<Value, Fault> {
    if text.len() > ARGS_LIMIT {
        return Err(Fault::Invalid(format!("the arguments have {} bytes of at most {ARGS_LIMIT}", text.len())));
    }
    let args: Value = serde_json::from_str(if text.is_empty() { "{}" } else { text })
        .map_err(|error| Fault::Invalid(format!("the arguments are not JSON: {error}")))?;
    match args {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(args),
        _ => Err(Fault::Invalid("the arguments are not an object".to_owned())),
    }
}
