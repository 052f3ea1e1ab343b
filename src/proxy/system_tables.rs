//! Answers SELECTs on `system.local`, `system.peers` and `system.peers_v2` with what the client may see.
//!
//! The client's own statement was forwarded, so errors and result metadata are Cassandra's own. The proxy replaces only
//! the rows. It reads them afresh on the client's connection, because drivers watch the `schema_version` in them.

use super::pending::{BoundValue, TopologyRead};
use super::topology::{Home, Overrides, Presented};
use super::wire::Wire;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::response;
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::response::result::{Row, Rows, value};
use crate::statement::topology::{Operand, Query, Selector, TopologyTable, substitute};

/// Why there is no answer. The client gets it as an ERROR.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("narrows: upstream did not answer a read of system.{0}")]
    Upstream(&'static str),
    #[error(
        "narrows: the proxy cannot compare {0} in a SELECT on system.{1}; leave it out of the WHERE clause"
    )]
    Condition(String, &'static str),
    #[error("narrows: LIMIT must be a positive number")]
    Limit,
    #[error(
        "narrows: count() with columns, functions or JSON is not supported on system.{0} by the proxy"
    )]
    MixedCount(&'static str),
    #[error("narrows: upstream sent a malformed reply")]
    Protocol(#[from] crate::protocol::ProtocolError),
}

/// Replaces the rows of `reply`.
pub(super) async fn answer(wire: &Wire, read: TopologyRead, reply: Envelope) -> Envelope {
    match replace_rows(wire, &read, &reply).await {
        Ok(body) => {
            let header = reply.header;
            Envelope::with_flags(
                header.version,
                header.flags,
                header.stream,
                header.opcode,
                body,
            )
        }
        Err(reason) => {
            let header = reply.header;
            let body = error::encode(ErrorCode::Invalid, &reason.to_string());
            Envelope::new(header.version, header.stream, opcode::ERROR, body)
        }
    }
}

async fn replace_rows(
    wire: &Wire,
    read: &TopologyRead,
    reply: &Envelope,
) -> Result<Vec<u8>, NoAnswer> {
    let prefix = response::prefix_length(reply.header, &reply.body)?;
    let mut message = response::message(reply.header, &reply.body)?;
    message.int()?;
    let mut result = Rows::read(&mut message)?;
    let table = read.select.table;
    // A SELECT that the proxy does not understand was refused, and never forwarded.
    let Some(query) = &read.select.query else {
        return Err(NoAnswer::Upstream(table.name()));
    };
    let nodes = visible_nodes(wire, table).await?;
    let nodes = matching(nodes, table, query, &read.values)?;
    result.rows = select(wire, table, query, &nodes).await?;
    if let Some(limit) = &query.limit {
        result.rows.truncate(read_limit(limit, &read.values)?);
    }
    let mut body = reply.body[..prefix].to_vec();
    body.extend_from_slice(&result.encode());
    Ok(body)
}

/// One row of a topology table with all its columns, as the client sees it.
struct VisibleNode {
    names: Vec<String>,
    row: Row,
    overrides: Overrides,
    /// The WHERE clause that finds the real row.
    real_key: String,
}

/// The rows of a topology table that the client may see.
async fn visible_nodes(wire: &Wire, table: TopologyTable) -> Result<Vec<VisibleNode>, NoAnswer> {
    if table != TopologyTable::Local && matches!(wire.presented, Presented::Single { .. }) {
        return Ok(Vec::new());
    }
    let text = format!("SELECT * FROM system.{}", table.name());
    let rows = wire
        .ask_rows(&text)
        .await
        .ok_or(NoAnswer::Upstream(table.name()))?;
    let home = Home::of(&wire.proxy.balance.cluster());
    let visible = |row: &Row| {
        let overrides = wire.presented.overrides(table, &rows, row, home.as_ref());
        let real_key = real_key(table, &rows, row);
        let mut shown = row.clone();
        for (column, presentation) in &overrides {
            if let Some(index) = rows.names.iter().position(|name| name == column) {
                shown[index] = Some(presentation.bytes.clone());
            }
        }
        VisibleNode {
            names: rows.names.clone(),
            row: shown,
            overrides,
            real_key,
        }
    };
    Ok(rows.rows.iter().map(visible).collect())
}

fn real_key(table: TopologyTable, rows: &Rows, row: &Row) -> String {
    let get = |name: &str| value(&rows.names, row, name).unwrap_or_default();
    let address = |name: &str| {
        response::event::ip_from_bytes(get(name))
            .map(|ip| ip.to_string())
            .unwrap_or_default()
    };
    match table {
        TopologyTable::Local => "key = 'local'".to_owned(),
        TopologyTable::Peers => format!("peer = '{}'", address("peer")),
        TopologyTable::PeersV2 => {
            let port = get("peer_port")
                .try_into()
                .map(i32::from_be_bytes)
                .unwrap_or_default();
            format!("peer = '{}' AND peer_port = {port}", address("peer"))
        }
    }
}

/// Keeps the rows that match the WHERE clause, judged by the values that the client sees.
fn matching(
    mut nodes: Vec<VisibleNode>,
    table: TopologyTable,
    query: &Query,
    values: &[BoundValue],
) -> Result<Vec<VisibleNode>, NoAnswer> {
    for (column, operand) in &query.conditions {
        let wanted = match operand {
            Operand::Literal(text) => encode_literal(column, text),
            Operand::Marker(index, name) => bound(values, *index, name.as_deref()),
        };
        let wanted = wanted.ok_or_else(|| NoAnswer::Condition(column.clone(), table.name()))?;
        nodes.retain(|node| value(&node.names, &node.row, column) == Some(&wanted));
    }
    Ok(nodes)
}

fn bound(values: &[BoundValue], index: usize, name: Option<&str>) -> Option<Vec<u8>> {
    let by_name = || {
        values
            .iter()
            .find(|value| name.is_some() && value.name.as_deref() == name)
    };
    by_name().or_else(|| values.get(index))?.bytes.clone()
}

/// A literal, encoded in the type of its column.
fn encode_literal(column: &str, text: &str) -> Option<Vec<u8>> {
    match column {
        "peer" | "rpc_address" | "native_address" | "preferred_ip" | "broadcast_address"
        | "listen_address" => match text.parse().ok()? {
            std::net::IpAddr::V4(ip) => Some(ip.octets().to_vec()),
            std::net::IpAddr::V6(ip) => Some(ip.octets().to_vec()),
        },
        "peer_port" | "native_port" | "preferred_port" | "rpc_port" | "broadcast_port"
        | "listen_port" => Some(text.parse::<i32>().ok()?.to_be_bytes().to_vec()),
        "host_id" | "schema_version" => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            Some(
                u128::from_str_radix(&digits, 16)
                    .ok()?
                    .to_be_bytes()
                    .to_vec(),
            )
        }
        "key" | "data_center" | "rack" | "release_version" | "cluster_name" => {
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn read_limit(limit: &Operand, values: &[BoundValue]) -> Result<usize, NoAnswer> {
    let limit = match limit {
        Operand::Literal(text) => text.parse::<usize>().ok(),
        Operand::Marker(index, name) => match bound(values, *index, name.as_deref()) {
            // An unset limit is no limit.
            None => Some(usize::MAX),
            Some(bytes) => bytes
                .try_into()
                .ok()
                .and_then(|bytes| usize::try_from(i32::from_be_bytes(bytes)).ok()),
        },
    };
    limit.ok_or(NoAnswer::Limit)
}

/// Evaluates the select list for every visible row.
async fn select(
    wire: &Wire,
    table: TopologyTable,
    query: &Query,
    nodes: &[VisibleNode],
) -> Result<Vec<Row>, NoAnswer> {
    let counts = query
        .selectors
        .iter()
        .filter(|selector| matches!(selector, Selector::Count(_)))
        .count();
    if counts == query.selectors.len() && !query.json {
        let count = |selector: &Selector| Some(count(selector, nodes).to_be_bytes().to_vec());
        return Ok(vec![query.selectors.iter().map(count).collect()]);
    }
    if counts > 0 {
        return Err(NoAnswer::MixedCount(table.name()));
    }
    let mut rows = Vec::new();
    for node in nodes {
        if query.needs_evaluation() {
            rows.extend(evaluate(wire, table, query, node).await?);
        } else {
            rows.push(
                query
                    .selectors
                    .iter()
                    .flat_map(|selector| plain(selector, node))
                    .collect(),
            );
        }
    }
    Ok(rows)
}

fn count(selector: &Selector, nodes: &[VisibleNode]) -> i64 {
    let counted = nodes.iter().filter(|node| match selector {
        Selector::Count(Some(column)) => value(&node.names, &node.row, column).is_some(),
        _ => true,
    });
    i64::try_from(counted.count()).unwrap_or(i64::MAX)
}

fn plain(selector: &Selector, node: &VisibleNode) -> Vec<Option<Vec<u8>>> {
    match selector {
        Selector::Column(name) => vec![value(&node.names, &node.row, name).map(<[u8]>::to_vec)],
        _ => node.row.clone(),
    }
}

/// Has Cassandra compute functions, casts and JSON over one row, with literals for the columns that are overridden.
async fn evaluate(
    wire: &Wire,
    table: TopologyTable,
    query: &Query,
    node: &VisibleNode,
) -> Result<Vec<Row>, NoAnswer> {
    let literal = |name: &str| {
        let shown = node.overrides.iter().find(|(column, _)| *column == name);
        shown.map(|(_, presentation)| presentation.literal.clone())
    };
    let column = |name: &str, alias: Option<&str>| {
        let source = literal(name).unwrap_or_else(|| quoted(name));
        format!("{source} AS {}", quoted(alias.unwrap_or(name)))
    };
    let mut list = Vec::new();
    for (selector, alias) in query.selectors.iter().zip(&query.aliases) {
        match selector {
            Selector::All => list.extend(node.names.iter().map(|name| column(name, None))),
            Selector::Column(name) => list.push(column(name, alias.as_deref())),
            Selector::Expression(source) => {
                let source = substitute(source, literal);
                list.push(match alias {
                    Some(alias) => format!("{source} AS {}", quoted(alias)),
                    None => source,
                });
            }
            Selector::Count(_) => return Err(NoAnswer::MixedCount(table.name())),
        }
    }
    let json = if query.json { "JSON " } else { "" };
    let text = format!(
        "SELECT {json}{} FROM system.{} WHERE {}",
        list.join(", "),
        table.name(),
        node.real_key
    );
    Ok(wire
        .ask_rows(&text)
        .await
        .ok_or(NoAnswer::Upstream(table.name()))?
        .rows)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
