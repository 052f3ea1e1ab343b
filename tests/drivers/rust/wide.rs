//! One partition with the driver's own paging, forwards and backwards.

use futures::TryStreamExt;
use scylla::client::session::Session;
use serde_json::json;
use twox_hash::XxHash3_64;

use crate::{Outcome, say};

pub(crate) async fn wide(session: &Session, table: &str) -> Outcome {
    for size in [5000, 999] {
        for order in ["ASC", "DESC"] {
            let text = format!("SELECT ck, n, v FROM {table} WHERE pk = ? ORDER BY ck {order}");
            let mut select = session.prepare(text).await?;
            select.set_page_size(size);
            let pager = session.execute_iter(select, ("wide",)).await?;
            let mut stream = pager.rows_stream::<(i32, i64, Option<String>)>()?;
            let (mut digest, mut rows) = (0_u64, 0);
            while let Some((ck, n, v)) = stream.try_next().await? {
                let v = v.as_deref().unwrap_or("null");
                // Seeded with all rows before it, so that their order counts.
                let line = format!("{ck},{n},{v}\n");
                digest = XxHash3_64::oneshot_with_seed(digest, line.as_bytes());
                rows += 1;
            }
            let digest = format!("{digest:016x}");
            say(
                "wide",
                json!({"size": size, "order": order, "rows": rows, "digest": digest}),
            )?;
        }
    }
    Ok(())
}
