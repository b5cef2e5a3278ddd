//! The secret of the role passwords where no file holds it: a row in the database that only the owner of the core's
//! tables can read, so that every host that shares the database finds the same one.

use anyhow::Context as _;
use tokio_postgres::Client;

use cardinal_base::config::Secret;
use cardinal_database::roles;

const TABLE_SQL: &str = "
    CREATE TABLE IF NOT EXISTS public.cardinal_secret (
      only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
      secret   text NOT NULL
    );
    REVOKE ALL ON public.cardinal_secret FROM PUBLIC";

/// The secret, where there is one. Asked as the owner of the core's tables.
///
/// # Errors
/// As the server reports them.
pub async fn secret_in(owner: &Client) -> anyhow::Result<Option<Secret>> {
    let known = owner.query_one("SELECT to_regclass('public.cardinal_secret') IS NOT NULL", &[]).await?;
    if !known.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = owner.query_opt("SELECT secret FROM public.cardinal_secret", &[]).await.context("reading the secret")?;
    Ok(row.map(|row| row.try_get::<_, String>(0)).transpose()?.map(Secret::new))
}

/// Has hosts of a new database share this secret. Done as its owner.
///
/// # Errors
/// As the server reports them.
pub async fn keep_secret(owner: &mut Client, secret: &Secret) -> anyhow::Result<()> {
    let tx = owner.transaction().await?;
    tx.batch_execute(TABLE_SQL).await.context("making the table of the role secret")?;
    tx.execute("INSERT INTO public.cardinal_secret (secret) VALUES ($1)", &[&secret.expose()])
        .await
        .context("keeping the secret")?;
    Ok(tx.commit().await?)
}

/// The secret of this database; the first who asks makes it. Done as the owner.
pub(super) async fn read_or_make(owner: &mut Client) -> anyhow::Result<Secret> {
    if let Some(secret) = secret_in(owner).await? {
        return Ok(secret);
    }
    let tx = owner.transaction().await?;
    tx.batch_execute(TABLE_SQL).await.context("making the table of the role secret")?;
    let fresh = roles::random_secret()?;
    tx.execute("INSERT INTO public.cardinal_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING", &[&fresh.expose()])
        .await
        .context("keeping the secret")?;
    let row = tx.query_one("SELECT secret FROM public.cardinal_secret", &[]).await.context("reading the secret")?;
    let secret = Secret::new(row.try_get::<_, String>(0)?);
    tx.commit().await.context("keeping the secret")?;
    Ok(secret)
}
