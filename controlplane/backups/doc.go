// Package backups is the manager's part of the backup of a tenant's data etcd. Members take, verify and keep snapshots by
// themselves, also while nobody hears of them (controlplane/etcd/agent). The manager writes the files that tell them how,
// asks them what there is, and keeps an object for each snapshot.
//
// What is decided is pure: Config and Told of what members are told, Reconciled of objects, Verdict of the condition EtcdBackedUp.
// A Keeper does the rest: it reads the credentials of stores, asks members (ask.go) and the tenant in the background, and writes
// objects. Reconciles write the Secret from which members read (controlplane/controllers/backup.go), for it has more than that.
package backups
