# Runs scripts, each ended by NUL, and reports of each: the programs that were started (by way of
# /scene/log), a separator, whether a file changed, and NUL. Uses nothing by name: PATH holds only programs
# that report.
make_work() {
  /usr/bin/rm -rf /scene/work
  /usr/bin/mkdir -p /scene/work/a
  echo one >/scene/work/f
  echo two >/scene/work/x
  echo three >/scene/work/a/f
  /usr/bin/cp /scene/stubs/evil /scene/work/evil
  state=$(look)
}
look() { /usr/bin/find /scene/work -printf '%p %y %m %s %C@ %l\n'; }
make_work
while IFS= read -r -d '' script; do
  : >/scene/log
  cd /scene/work
  /usr/bin/timeout -s KILL 5 /usr/bin/bash --norc --noprofile -c "$script" </dev/null >/dev/null 2>&1
  cd /scene
  # What it left in the background reports too.
  for try in {1..200}; do
    processes=(/proc/[0-9]*)
    [ "${#processes[@]}" -le 2 ] && break
    /usr/bin/sleep 0.01
  done 2>/dev/null
  /usr/bin/cat /scene/log
  if [ "$(look)" = "$state" ]; then
    printf '\035same\0'
  else
    printf '\035changed\0'
    make_work
  fi
done
