//! Where the supervisor answers what workers ask, and remembers from one worker to the next.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::{
    announce::Announcement,
    crashes::{Crashes, WorkerExit},
    files::Files,
    first_password::FirstPassword,
    local::LocalListener,
    provisioner::Provisioner,
    tls::TlsSource,
};
use cardinal_base::clock::Clock;
use cardinal_control::link::{
    FirstLogin, PluginDatabase, ProvisionFault, ProvisionRequest, TlsReading, ToSupervisor, ToWorker,
};

/// Packages that need not be tried again; far more than a host has.
const MAX_PROBED: usize = 1_000;

pub(crate) struct ControlService {
    pub clock: Clock,
    pub crashes: Crashes,
    /// A probe has come through to the public socket, so that it counts when the worker does not answer.
    pub probes_connect: bool,
    /// Without it, commands on this machine need a key.
    pub local: Option<LocalListener>,
    provisioner: Provisioner,
    announcement: Announcement,
    first_password: FirstPassword,
    files: Files,
    tls: Arc<TlsSource>,
    /// Hashes of packages that a probe process has opened, by this very program.
    probed: HashSet<String>,
    /// What this worker has asked for already. Its first question is answered from what an earlier worker was given,
    /// so that a restart costs no schema step; a second means that something is wrong with the answer.
    requested: HashSet<ProvisionRequest>,
}

impl ControlService {
    pub(crate) fn new(
        clock: Clock,
        crashes: Crashes,
        provisioner: Provisioner,
        announcement: Announcement,
        first_password: FirstPassword,
        files: Files,
        tls: TlsSource,
    ) -> Self {
        let (probed, requested) = (HashSet::new(), HashSet::new());
        Self {
            clock,
            crashes,
            probes_connect: false,
            local: None,
            provisioner,
            announcement,
            first_password,
            files,
            tls: Arc::new(tls),
            probed,
            requested,
        }
    }

    pub(crate) fn new_worker(&mut self) {
        self.requested.clear();
    }

    pub(crate) fn probed(&self) -> Vec<String> {
        self.probed.iter().cloned().collect()
    }

    /// Answers at once or has it done; never waits.
    pub(crate) fn serve(&mut self, message: ToSupervisor, outbox: &mpsc::Sender<ToWorker>) {
        match message {
            ToSupervisor::Alive => {}
            ToSupervisor::Ready { first_login } => self.announce(first_login),
            ToSupervisor::FirstLogin(login) => {
                let first = self.first_password.clone();
                spawn_blocking(move || drop(first.look(&login)));
            }
            ToSupervisor::Probed { sha256 } => {
                if self.probed.len() < MAX_PROBED {
                    self.probed.insert(sha256);
                }
            }
            ToSupervisor::Release { id, plugin } => {
                let was_quarantined = self.crashes.release(&plugin);
                answer(outbox, async move { ToWorker::Released { id, was_quarantined } });
            }
            ToSupervisor::Blocked { crash } => drop(self.crashes.add(*crash)),
            ToSupervisor::ReadLock { id } => {
                let read = self.with_files(Files::read_lock);
                answer(outbox, async move { ToWorker::Lock { id, lock: finished(read).await } });
            }
            ToSupervisor::WriteLock { id, lock } => {
                let write = self.with_files(move |files| files.write_lock(&lock));
                answer(outbox, async move { ToWorker::Written { id, result: finished(write).await } });
            }
            ToSupervisor::BootstrapPassword { id, password } => {
                self.announcement.made_up(password.clone());
                let write = self.with_files(move |files| files.bootstrap_password(password.as_ref()));
                answer(outbox, async move { ToWorker::Written { id, result: finished(write).await } });
            }
            ToSupervisor::ReadTls { id } => {
                let read = self.read_tls();
                answer(outbox, async move { ToWorker::Tls { id, tls: read.await } });
            }
            ToSupervisor::Purge { id, plugin } => {
                self.requested.retain(|request| request.plugin != plugin);
                let provisioner = self.provisioner.clone();
                answer(outbox, async move { ToWorker::Purged { id, result: provisioner.purge(&plugin).await } });
            }
            ToSupervisor::Provision { id, request } => {
                let provision = self.provision(request);
                answer(outbox, async move { ToWorker::Provisioned { id, result: provision.await } });
            }
        }
    }

    /// That the worker serves, and the first user's password while it is valid.
    fn announce(&mut self, first_login: Option<FirstLogin>) {
        tracing::info!("the worker is ready");
        self.announcement.print_to_terminal();
        let (announcement, first) = (self.announcement.clone(), self.first_password.clone());
        spawn_blocking(move || announcement.ready(first_login.and_then(|login| first.look(&login)).as_deref()));
    }

    fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> io::Result<T> + Send + 'static,
    ) -> JoinHandle<io::Result<T>> {
        let files = self.files.clone();
        spawn_blocking(move || work(&files))
    }

    fn read_tls(&self) -> impl Future<Output = TlsReading> + Send + use<> {
        let source = Arc::clone(&self.tls);
        let read = spawn_blocking(move || source.read());
        let broken = |error: JoinError| TlsReading { pair: None, problem: Some(error.to_string()) };
        async move { read.await.unwrap_or_else(broken) }
    }

    fn provision(
        &mut self,
        request: ProvisionRequest,
    ) -> impl Future<Output = Result<PluginDatabase, ProvisionFault>> + Send + use<> {
        let known = if self.requested.insert(request.clone()) { self.provisioner.recall(&request) } else { None };
        let provisioner = self.provisioner.clone();
        async move {
            match known {
                Some(database) => Ok(database),
                None => provisioner.provision(&request).await,
            }
        }
    }

    /// Records how a worker ended. Whether there is reason to hope that the next one will fare better.
    pub(crate) fn record_exit(&mut self, exit: WorkerExit) -> bool {
        let Some(crash) = exit.crash else { return false };
        if let Some(culprit) = &crash.plugin {
            self.probed.remove(&culprit.sha256);
        }
        self.crashes.add(crash).is_some()
    }
}

async fn finished<T>(work: JoinHandle<io::Result<T>>) -> Result<T, String> {
    work.await.map_err(io::Error::other).and_then(|done| done).map_err(|error| error.to_string())
}

/// A worker that is gone asks again in its next life.
fn answer(outbox: &mpsc::Sender<ToWorker>, work: impl Future<Output = ToWorker> + Send + 'static) {
    let outbox = outbox.clone();
    tokio::spawn(async move {
        let _ = outbox.send(work.await).await;
    });
}
