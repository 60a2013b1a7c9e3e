#!/usr/bin/env bash
# cluster.sh install | up | env | down | stop-controller | start-controller | crash-daemons | start-daemons
#            | lose-node NODE | warn-before-preemption | preempt-at-once         (ROOT: SLURM_TEST_ROOT)
# A private, throw-away SLURM cluster on one machine. No systemd, nothing under /etc.
# Everything lives below ROOT; every daemon is stopped by the pid in ROOT/run/*.pid.
# Each node is a host of its own (UTS, PID and mount namespaces), so a job's process can't be seen from outside
# as itself. It shares the network and the files; what is mounted later is on the nodes if it is below ROOT/mnt.
set -euo pipefail
ROOT=${SLURM_TEST_ROOT:-/tmp/slurm-test-cluster}
NODES=${SLURM_TEST_NODES:-3}  CPUS=${SLURM_TEST_CPUS:-4}  GPUS=${SLURM_TEST_GPUS:-2}
DBD=${SLURM_TEST_DBD:-1}                       # 1: slurmdbd + mariadb (sacct works), 0: without
BASE=${SLURM_TEST_PORT:-26800}                 # BASE: slurmctld, +1: slurmdbd, +11..: slurmd
ARRAY=${SLURM_TEST_MAXARRAY:-1001}             # MaxArraySize: one more than the highest index
export SLURM_CONF=$ROOT/etc/slurm.conf MYSQL_UNIX_PORT=$ROOT/run/mysql.sock
export PATH=$PATH:/usr/sbin:/sbin
now() { date +%s.%N; }
say() { printf '%7.2fs %s\n' "$(echo "$(now) - $T0" | bc)" "$*" >&2; }
alive() { [ -r "/proc/$1/stat" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
until_ok() { local n=$1; shift; for _ in $(seq "$n"); do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done; echo "TIMEOUT: $*" >&2; return 1; }

install_packages() {
  local want="slurmctld slurmd slurm-client munge bc" miss=""
  [ "$DBD" = 1 ] && want="$want slurmdbd mariadb-server"
  for p in $want; do dpkg -s "$p" >/dev/null 2>&1 || miss="$miss $p"; done
  [ -z "$miss" ] && return 0
  # no daemon may be started by the packages' own scripts
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $miss >/dev/null
}

conf() {
  install -d -m 755 "$ROOT" "$ROOT"/{etc,run,log,state,spool,dev,munge,db,tmp,mnt}
  chmod 700 "$ROOT/db"
  [ -s "$ROOT/munge/munge.key" ] || (umask 077; head -c 128 /dev/urandom > "$ROOT/munge/munge.key")
  for g in $(seq 0 $((GPUS - 1))); do
    [ -e "$ROOT/dev/gpu$g" ] || mknod -m 666 "$ROOT/dev/gpu$g" c 1 3 2>/dev/null || : > "$ROOT/dev/gpu$g"
  done
  local acct="AccountingStorageType=accounting_storage/none"
  [ "$DBD" = 1 ] && acct="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((BASE + 1))
AccountingStoragePass=$ROOT/run/munge.socket
AccountingStorageTRES=gres/gpu"
  cat > "$ROOT/etc/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$ROOT/run/munge.socket,cred_expire=6
SlurmctldPort=$BASE
SlurmctldPidFile=$ROOT/run/slurmctld.pid
SlurmdPidFile=$ROOT/run/slurmd.%n.pid
SlurmctldLogFile=$ROOT/log/slurmctld.log
SlurmdLogFile=$ROOT/log/slurmd.%n.log
StateSaveLocation=$ROOT/state
SlurmdSpoolDir=$ROOT/spool/%n
MailProg=/bin/true
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_min_interval=0,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
EnforcePartLimits=ALL
GresTypes=gpu
JobRequeue=1
MaxArraySize=$ARRAY
KillWait=5
OverTimeLimit=0
MinJobAge=3600
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
$acct
NodeName=n[1-$NODES] NodeAddr=127.0.0.1 Port=[$((BASE + 11))-$((BASE + 10 + NODES))] CPUs=$CPUS RealMemory=4000 Gres=gpu:$GPUS State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=DEFAULT Nodes=ALL MaxTime=01:00:00 DefaultTime=00:05:00 DefMemPerCPU=100 State=UP
PartitionName=gpu Default=YES PriorityTier=1 PreemptMode=OFF
PartitionName=low PriorityTier=1 PreemptMode=REQUEUE GraceTime=15
PartitionName=fleeting PriorityTier=1 PreemptMode=CANCEL GraceTime=15
PartitionName=brief PriorityTier=1 PreemptMode=CANCEL GraceTime=0
PartitionName=urgent PriorityTier=10 PreemptMode=OFF
EOF
  { cat /etc/hosts; for i in $(seq "$NODES"); do echo "127.0.0.$((10 + i)) n$i"; done; } > "$ROOT/etc/hosts"
  cat > "$ROOT/etc/gres.conf" <<EOF
AutoDetect=off
NodeName=n[1-$NODES] Name=gpu File=$ROOT/dev/gpu[0-$((GPUS - 1))]
EOF
  if [ "$DBD" = 1 ]; then
    (umask 077; cat > "$ROOT/etc/slurmdbd.conf" <<EOF
AuthType=auth/munge
AuthInfo=socket=$ROOT/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((BASE + 1))
SlurmUser=root
PidFile=$ROOT/run/slurmdbd.pid
LogFile=$ROOT/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct_db
StorageUser=root
EOF
    )
  fi
}

nodes() { seq -f n%.0f "$NODES"; }
idle() { [ "$(sinfo -h -N -o %T | grep -cx idle)" = "$NODES" ]; }

up() {
  T0=$(now)
  if [ -e "$ROOT/run/slurmctld.pid" ] && scontrol ping >/dev/null 2>&1 && idle && nodes_run; then say "already up"; return 0; fi
  down
  unshare --uts --pid --mount --fork true 2>/dev/null || {
    echo "The nodes are hosts of their own: this needs root and namespaces (in Docker --privileged)." >&2; exit 1; }
  # Jobs and drained nodes of an earlier cluster are not ours; in its data base they have the numbers of our jobs.
  rm -rf "$ROOT/state" "$ROOT/spool" "$ROOT/db"
  conf
  mount --bind "$ROOT/mnt" "$ROOT/mnt"
  mount --make-shared "$ROOT/mnt"
  munged --socket="$ROOT/run/munge.socket" --key-file="$ROOT/munge/munge.key" \
    --pid-file="$ROOT/run/munged.pid" --log-file="$ROOT/log/munged.log" --seed-file="$ROOT/munge/seed"
  say munged
  if [ "$DBD" = 1 ]; then
    # A mariadbd that starts removes all temporary tables in its folder, so another cluster's must not lie there.
    local own="env TMPDIR=$ROOT/tmp"
    $own mariadb-install-db --no-defaults --datadir="$ROOT/db" --user="$(id -un)" --skip-test-db \
      --auth-root-authentication-method=normal >"$ROOT/log/mariadb-install.log" 2>&1 || { head -n 20 "$ROOT/log/mariadb-install.log" >&2; return 1; }
    say mariadb-install-db
    $own mariadbd --no-defaults --user="$(id -un)" --datadir="$ROOT/db" --socket="$MYSQL_UNIX_PORT" --skip-networking \
      --pid-file="$ROOT/run/mariadbd.pid" --innodb-buffer-pool-size=32M --innodb-log-file-size=8M \
      --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=60 --performance-schema=OFF \
      >"$ROOT/log/mariadbd.log" 2>&1 </dev/null &
    until_ok 600 mariadb-admin --no-defaults --socket="$MYSQL_UNIX_PORT" -u root ping
    say mariadbd
    slurmdbd                                   # finds slurmdbd.conf beside $SLURM_CONF
    until_ok 600 sacctmgr -n -i list cluster
    say slurmdbd
    [ -n "$(sacctmgr -n -P list cluster format=cluster)" ] || sacctmgr -i -Q add cluster test >/dev/null
    say "cluster in the db"
  fi
  slurmctld -i -f "$SLURM_CONF"
  start_daemons
  until_ok 600 scontrol ping
  say "slurmctld answers"
  until_ok 600 srun -Q -N "$NODES" -t 1 --immediate=5 true      # readiness = a real step on every node
  say "ready"
}

down() {
  T0=${T0:-$(now)}
  if [ -s "$ROOT/run/slurmctld.pid" ] && alive "$(cat "$ROOT/run/slurmctld.pid")"; then
    timeout 5 scancel -Q -f -s KILL --state=RUNNING -u "$(id -un)" || true     # steps die now, no KillWait
    timeout 5 scancel -Q -u "$(id -un)" || true
    for _ in $(seq 80); do [ -z "$(timeout 2 squeue -h 2>/dev/null || true)" ] && break; sleep 0.1; done
  fi
  local f
  for f in "$ROOT"/run/node.*.pid; do end_node "$f"; done
  for f in "$ROOT"/run/{slurmctld,slurmdbd,mariadbd,munged}.pid; do stop_pid "$f"; done
  if mountpoint -q "$ROOT/mnt"; then umount -R -l "$ROOT/mnt"; fi
  say "down"
}

stop_pid() {
  local p
  [ -s "$1" ] || return 0
  p=$(cat "$1")
  # the pid file is ours (below ROOT); still check that the pid was not reused by another program
  if alive "$p" && grep -qaE 'slurmctld|slurmdbd|mariadbd|munged' "/proc/$p/comm"; then
    kill "$p"; for _ in $(seq 300); do alive "$p" || break; sleep 0.05; done
    alive "$p" && kill -9 "$p" || true
  fi
  rm -f "$1"
}

start_controller() {
  slurmctld -f "$SLURM_CONF"
  until_ok 600 scontrol ping
}

# --- nodes ---

is_node() { [ -s "$1" ] && alive "$(cat "$1")" && grep -qaF "be_node $1" "/proc/$(cat "$1")/cmdline"; }
nodes_run() { local node; for node in $(nodes); do is_node "$ROOT/run/node.$node.pid" || return 1; done; }
on() { local node=$1; shift; nsenter -t "$(cat "$ROOT/run/node.$node.pid")" --uts --pid --mount "$@"; }
has_daemon() { local f=$ROOT/run/slurmd.$1.pid; [ -s "$f" ] && on "$1" kill -0 "$(cat "$f")" 2>/dev/null; }

be_node() {   # a node's first process: it waits for all that lose their parents there; with it, all of them end
  hostname "$2"
  mount --bind "$ROOT/etc/hosts" /etc/hosts
  sleep infinity & wait
}

start_node() {
  local f=$ROOT/run/node.$1.pid outer
  is_node "$f" && return 0
  rm -f "$ROOT/run/slurmd.$1.pid"   # of a node that was lost
  ROOT=$ROOT setsid unshare --uts --pid --mount --propagation slave --fork --kill-child --mount-proc \
    bash -c "$(declare -f be_node); be_node $f $1" >>"$ROOT/log/node.$1.log" 2>&1 </dev/null &
  outer=$!
  until_ok 600 eval "pgrep -P $outer > $f"
  until_ok 600 eval "[ \"\$(on $1 hostname)\" = $1 ]"
}

end_node() {   # all that runs there dies at once
  local p
  if is_node "$1"; then
    p=$(cat "$1")
    kill -9 "$p"
    while alive "$p"; do sleep 0.01; done   # it ends as the last of its node
  fi
  rm -f "$1"
}

start_daemons() {   # of those nodes that have none
  local node
  for node in $(nodes); do
    start_node "$node"
    install -d "$ROOT/spool/$node"
    # It knows its name by that of its host. On a busy machine one that has just died may still hold its port.
    has_daemon "$node" || until_ok 600 on "$node" slurmd -f "$SLURM_CONF" || { tail -n 5 "$ROOT/log/slurmd.$node.log" >&2; return 1; }
  done
}

crash_daemons() {   # their jobs go on under slurmstepd, as when a daemon is updated
  local node
  for node in $(nodes); do
    has_daemon "$node" && on "$node" kill -9 "$(cat "$ROOT/run/slurmd.$node.pid")" || true
    rm -f "$ROOT/run/slurmd.$node.pid"
  done
}

lose_node() {   # daemon, steps and tasks die at once and nobody tells the controller; then an operator notices
  end_node "$ROOT/run/node.$1.pid"
  scontrol update nodename="$1" state=down reason=lost
  scontrol update nodename="$1" state=idle
}

# --- what else happens ---

preempt() {   # with or without the signal that jobs asked for as a warning
  sed -i '/^SlurmctldParameters=/d' "$SLURM_CONF"
  [ -z "$1" ] || echo "SlurmctldParameters=$1" >> "$SLURM_CONF"
  scontrol reconfigure
}

env_() { printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"; }

case ${1:-} in
  install) install_packages ;;
  up) up ;;
  down) down ;;
  env) env_ ;;
  stop-controller) stop_pid "$ROOT/run/slurmctld.pid" ;;
  start-controller) start_controller ;;
  start-daemons) start_daemons ;;
  crash-daemons) crash_daemons ;;
  lose-node) lose_node "$2" ;;
  warn-before-preemption) preempt preempt_send_user_signal ;;
  preempt-at-once) preempt "" ;;
  *) sed -n 2,3p "$0"; exit 2 ;;
esac
