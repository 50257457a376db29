// Package archive is the format in which a snapshot of etcd leaves its member: an object, a manifest beside it, and, once it was
// restored as a trial, a verification beside both.
//
// # The object
//
// What etcd sends, compressed by zstd and then encrypted by age, for the tenant and for people: `age -d -i KEY OBJECT | zstd -d`
// gives a snapshot that etcdutl takes, without this program.
//
// # The manifest
//
// JSON: what the snapshot is of, and the sizes and hashes of the object and of what is in it. age says nothing of who encrypted,
// so a manifest has an HMAC by a key that the tenant alone has, over the bytes of its body as they are in the file. It cannot
// be formatted anew. The verification has the same form, and names the manifest by its hash.
//
// # What it promises
//
//   - Both directions stream, with bounded memory: that of zstd, and of one chunk of age.
//   - Nothing counts before all of it was read: Extract writes to a scratch file, and refuses at the end at the latest.
//   - Whatever is refused is a Refusal, whose message says what is wrong and what to do. Every other error is one of reading or
//     writing, and may pass.
package archive
