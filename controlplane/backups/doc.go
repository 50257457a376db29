// Package backups is the manager's part of the backup of a tenant's data etcd. Members take, verify and keep snapshots by
// themselves, also while nobody hears of them (controlplane/etcd/agent). The manager writes the files that tell them how,
// asks them what there is, and keeps an object for each snapshot.
//
// Decisions are pure: configFor and Told.Beside decide what members are told, reconciled decides on objects, followingOf on the snapshot
// after a rotation of keys, and Verdict on the condition EtcdBackedUp. A Keeper does the rest: it reads the credentials of stores, asks members (ask.go) and the tenant in the
// background, and writes objects. Reconciles write the Secret that members read (controlplane/controllers/backup.go), because it also has
// files for a restore.
package backups
