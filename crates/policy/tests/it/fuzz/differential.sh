# Runs scripts, each ended by NUL, and reports of each: the programs that were started (by way of
# /d/log), a separator, whether a file changed, and NUL. Uses nothing by name: PATH holds only programs
# that report.
make_work() {
  /usr/bin/rm -rf /d/work
  /usr/bin/mkdir -p /d/work/a
  echo one >/d/work/f
  echo two >/d/work/x
  echo three >/d/work/a/f
  /usr/bin/cp /d/stubs/evil /d/work/evil
  state=$(look)
}
look() { /usr/bin/find /d/work -printf '%p %y %m %s %C@ %l\n'; }
make_work
while IFS= read -r -d '' script; do
  : >/d/log
  cd /d/work
  /usr/bin/timeout -s KILL 5 /usr/bin/bash --norc --noprofile -c "$script" </dev/null >/dev/null 2>&1
  cd /d
  # What it left in the background reports too.
  for try in {1..200}; do
    processes=(/proc/[0-9]*)
    [ "${#processes[@]}" -le 2 ] && break
    /usr/bin/sleep 0.01
  done 2>/dev/null
  /usr/bin/cat /d/log
  if [ "$(look)" = "$state" ]; then
    printf '\035same\0'
  else
    printf '\035changed\0'
    make_work
  fi
done
