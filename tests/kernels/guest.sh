# What Fullbore must do on a kernel: runs as root in busybox sh on a machine that holds nothing else (see boot.sh).
#
# FORM is brief, short or long. /bin/fullbore is the program, /tests holds the library's tests. Prints
#   ok NAME, FAIL NAME: what was expected; what came, or SKIPPED NAME: why;
#   fact WHAT: VALUE, way WHO, WAY: yes or no, and why; for the table;
#   said NAME: exit code and words, which must be the same on every kernel;
#   path NAME: the same, which need not be.
FORM=${FORM:-short}
oks=0 fails=0 skips=0
start=$(date +%s)

ok() { oks=$((oks + 1)); echo "ok $*"; }
bad() { fails=$((fails + 1)); echo "FAIL $*"; }
skip() { skips=$((skips + 1)); echo "SKIPPED $*"; }
fact() { echo "fact $*"; }
section() { echo "== $* ($(($(date +%s) - start)) s)"; }

# Who runs what is tried: user, and whether the program may be read by whoever runs it.
WHO=root USER_OF=root
# A program that hangs is ended, and that is seen by its exit code, 137.
export F='timeout -s KILL 100 /bin/fullbore'
be() { # be USER [FILE]: with FILE as the program
    WHO=$1 USER_OF=$1 F="timeout -s KILL 100 ${2:-/bin/fullbore}"
    [ -z "$2" ] || WHO="$WHO, mode 711"
    [ -e /proc/self ] || WHO="$WHO, no /proc"
}
# try LINE: runs it in a shell whose pipelines fail if any part fails; leaves $code, and $out, $err without line ends.
try() {
    : >/tmp/.out; : >/tmp/.err
    if [ "$USER_OF" = root ]; then
        sh -c "set -o pipefail; $1" >/tmp/.out 2>/tmp/.err </dev/null
    else
        su -s /bin/sh "$USER_OF" -c "set -o pipefail; $1" >/tmp/.out 2>/tmp/.err </dev/null
    fi
    code=$?
    out=$(head -c 2000 /tmp/.out | tr '\n' ' ') err=$(head -c 2000 /tmp/.err | tr '\n' ' ')
    out=${out% } err=${err% }
}
came() { echo "came exit code $code, output '$out', errors '$err'"; }
# right NAME LINE: it succeeds and complains of nothing.
right() {
    try "$2"
    if [ $code = 0 ] && [ -z "$err" ]; then ok "$1 ($WHO)"; else bad "$1 ($WHO): expected success; $(came)"; fi
}
# wrong NAME CODE WORDS LINE: it fails with this exit code and these words (a pattern of grep -E).
wrong() {
    try "$4"
    if [ $code = "$2" ] && echo "$err" | grep -qE "$3"; then
        ok "$1 ($WHO)"
        echo "said $1 ($WHO): exit code $code, $err"
    else
        bad "$1 ($WHO): expected exit code $2 and '$3'; $(came)"
    fi
}
# said NAME LINE: what it says is compared with other kernels.
said() {
    try "$2"
    echo "said $1 ($WHO): exit code $code, $out $err"
}

# path NAME LINE: what it says is for the table only, since kernels differ by design.
path() {
    try "$2"
    echo "path $1 ($WHO): exit code $code, $out $err"
}

THP=/sys/kernel/mm/transparent_hugepage
setting() { sed 's/.*\[\(.*\)\].*/\1/' $THP/enabled 2>/dev/null || echo absent; }
huge=$(cat $THP/hpage_pmd_size 2>/dev/null || echo 0)
page=$(awk '/KernelPageSize/ { print $2 * 1024; exit }' /proc/self/smaps)
# Huge pages of 32 MiB and more are not worth what one slot would hold of them.
fresh_is_due() { [ "$(setting)" != never ] && [ "$(setting)" != absent ] && [ "$huge" -le $((4 << 20)) ]; }

# The words for it where they are not.
NO_HUGE='(the kernel gave small pages|this kernel has no transparent huge pages|madvise\(MADV_HUGEPAGE\): )'
NO_FRESH="^fullbore: fresh refused: $NO_HUGE"
[ "$huge" -le $((4 << 20)) ] || NO_FRESH="^fullbore: fresh refused: huge pages are of $((huge >> 20))MiB here"

# Before 5.18 a write to a huge page that is copy-on-write changes what a pipe holds.
cow_is_due() {
    local major minor rest
    IFS=. read -r major minor rest <<END
$(uname -r)
END
    fresh_is_due && { [ "$major" -gt 5 ] || { [ "$major" = 5 ] && [ "${minor%%-*}" -ge 18 ]; }; }
}
NO_COW="^fullbore: cow refused: ($NO_HUGE|huge pages are of|this kernel changes pages that a pipe holds)"

fact "kernel: $(uname -r)"
fact "page size: $page"
fact "huge page: $huge, $(setting)"
fact "processor: $(awk -F': *' '/model name|CPU implementer/ { print $2; exit }' /proc/cpuinfo), $(nproc) CPUs"
fact "pipe-max-size: $(cat /proc/sys/fs/pipe-max-size)"

# What contents are compared with, made by busybox.
mkdir -m 777 /tmp/w
seq 1 500000 >/tmp/seq                                     # 3.4 MB
cp /tmp/seq /seq                                     # another file system than /tmp
cp /bin/fullbore /hidden && chown 0:0 /hidden && chmod 711 /hidden
seq 1 300 >/tmp/small
head -c 3000000 /dev/zero >/tmp/zero
yes | head -c 4000000 >/tmp/yes
yes 'a line' | head -c 700000 >/tmp/line
awk 'BEGIN { for (i = 1; i <= 120000; i++) print i % 15 ? i % 5 ? i % 3 ? i : "Fizz" : "Buzz" : "FizzBuzz" }' >/tmp/fizzbuzz
chmod 644 /tmp/seq /seq /tmp/small

SIZE=8M BYTES=8388608
# pair IN OUT OPTIONS: both sides are told the same; the reader says how many bytes came, and looks at each where it copies.
pair() {
    local in=$1 out_by=$2 options=$3 verify= name="pair $1 to $2${3:+ $3}"
    [ "$2" != read ] || verify=--verify
    local both="--write-with $in --read-with $out_by --bytes $SIZE $verify $options"
    try "$F write $both | $F read $both --json"
    case $code:$out:$err in
        0:*\"bytes\":$BYTES,*:) ok "$name ($WHO)" ;;
        *) bad "$name ($WHO): expected $BYTES bytes and no complaint; $(came)" ;;
    esac
}

# way NAME LINE: for the table; the reason is the program's own.
way() {
    try "$2"
    if [ $code = 0 ] && [ -z "$err" ]; then echo "way $WHO, $1: yes"; else echo "way $WHO, $1: no: exit code $code, $err"; fi
}

pairs() { # every way in × every way out
    local in out_by
    for in in write vmsplice fat tee; do
        for out_by in read splice relay; do pair $in $out_by; done
    done
    fresh_pairs
    pair vmsplice read '--pages huge'
}

fresh_pairs() {
    local out_by
    for out_by in read splice relay; do
        if fresh_is_due; then
            pair fresh $out_by '--pipe-size 1M'
            pair fresh $out_by '--pipe-size 1M --ahead 3M'
        else
            wrong "fresh to $out_by is refused" 1 "$NO_FRESH" \
                "$F write --with fresh --bytes $SIZE | $F read --with $out_by >/dev/null"
        fi
        if cow_is_due; then
            pair cow $out_by '--pipe-size 1M'
            pair cow $out_by '--pipe-size 1M --ahead 3M'
        else
            wrong "cow to $out_by is refused" 1 "$NO_COW" \
                "$F write --with cow --bytes $SIZE | $F read --with $out_by >/dev/null"
        fi
        pair auto $out_by '--pipe-size 1M'
        pair fat $out_by '--ahead 3M'
    done
}

waits() {
    local wait in
    for wait in poll spin poll-spin adaptive; do
        for in in write vmsplice; do pair $in read "--wait $wait"; done
    done
    pair fat relay '--wait adaptive'
    pair tee splice '--wait spin'
    ! fresh_is_due || pair fresh splice '--wait adaptive'
}

ways() {
    local in out_by
    for in in write vmsplice fresh cow fat tee; do
        way "write --with $in" "$F write --with $in --bytes 4M | cat >/dev/null"
    done
    for out_by in read splice relay; do
        way "read --with $out_by" "$F write --bytes 4M | $F read --with $out_by --bytes 4M >/dev/null"
    done
}

# doctor FRESH: what it says of each way; exit code 0.
doctor() {
    try "$F doctor --json >/tmp/w/doctor.json && $F doctor"
    if [ $code = 0 ] && [ -z "$err" ]; then ok "doctor ($WHO)"; else bad "doctor ($WHO): expected success; $(came)"; fi
    [ $code != 0 ] || tr '{' '\n' </tmp/w/doctor.json |
        sed -n 's|.*"id":"\([^"]*\)","state":"\([^"]*\)","found":"\([^"]*\)".*|doctor '"$WHO"', \1: \2: \3|p'
    if fresh_is_due; then
        # No other state is right where huge pages of a usable size are.
        if grep -q '"id":"fresh","state":"ok"' /tmp/w/doctor.json; then
            ok "doctor finds fresh ($WHO)"
        else
            bad "doctor finds fresh ($WHO): expected state ok; came $(tr '{' '\n' </tmp/w/doctor.json | grep '"id":"fresh"')"
        fi
    fi
    rm -f /tmp/w/doctor.json
}

tools() {
    # cat: pipe, file, another file system, the end of a file, what cannot be spliced.
    right 'cat: file to pipe' "$F cat /tmp/seq | cmp - /tmp/seq"
    right 'cat: pipe to file' "cat /tmp/seq | $F cat >/tmp/w/out; cmp /tmp/w/out /tmp/seq"
    right 'cat: pipe to pipe' "cat /tmp/seq | $F cat | cmp - /tmp/seq"
    right 'cat: file to file' "$F cat /tmp/seq /tmp/small >/tmp/w/out && cat /tmp/seq /tmp/small | cmp - /tmp/w/out"
    right 'cat: to another file system' "$F cat /seq >/tmp/w/out && cmp /tmp/w/out /seq"
    right 'cat: at the end of a file' "cat /tmp/small >/tmp/w/out; $F cat /tmp/seq >>/tmp/w/out && cat /tmp/small /tmp/seq | cmp - /tmp/w/out"
    right 'cat: pipe to the end of a file' "cat /tmp/small >/tmp/w/out; cat /tmp/seq | $F cat >>/tmp/w/out && cat /tmp/small /tmp/seq | cmp - /tmp/w/out"
    right 'cat: nothing' "$F cat </dev/null | cmp - /dev/null"
    right 'cat: /dev/zero' "$F cat /dev/zero | head -c 3000000 | cmp - /tmp/zero"
    right 'cat: a file of sysfs' "$F cat $THP/enabled | cmp - $THP/enabled && $F cat $THP/enabled >/tmp/w/out && cmp /tmp/w/out $THP/enabled"
    [ ! -e /proc/version ] || right 'cat: a file of proc' \
        "$F cat /proc/version /proc/filesystems | cat >/tmp/w/out && cat /proc/version /proc/filesystems | cmp - /tmp/w/out &&
         $F cat /proc/version /proc/filesystems >/tmp/w/out && cat /proc/version /proc/filesystems | cmp - /tmp/w/out"
    right 'cat -n' "cat -n /tmp/small >/tmp/w/out; $F cat -n /tmp/small | cmp - /tmp/w/out"
    wrong 'cat: no such file' 1 '^fullbore: /tmp/absent: No such file or directory' "$F cat /tmp/absent"
    wrong 'cat: no space' 1 'No space left on device' "$F cat /tmp/seq >/dev/full"

    # tee
    right 'tee: two files and a pipe' "cat /tmp/seq | $F tee /tmp/w/a /tmp/w/b | cmp - /tmp/seq && cmp /tmp/w/a /tmp/seq && cmp /tmp/w/b /tmp/seq"
    right 'tee: from a file' "$F tee /tmp/w/a </tmp/seq | cmp - /tmp/seq && cmp /tmp/w/a /tmp/seq"
    right 'tee -a' "cat /tmp/small >/tmp/w/a; cat /tmp/seq | $F tee -a /tmp/w/a >/dev/null && cat /tmp/small /tmp/seq | cmp - /tmp/w/a"
    right 'tee: to processes' "mkfifo /tmp/w/p; cmp /tmp/w/p /tmp/seq & cat /tmp/seq | $F tee /tmp/w/p | cmp - /tmp/seq && wait \$!"
    wrong 'tee: no space' 1 'No space left on device' "cat /tmp/seq | $F tee /dev/full | cmp - /tmp/seq"

    # yes: a writer whose reader goes away has succeeded
    right 'yes' "$F yes | head -c 4000000 | cmp - /tmp/yes"
    right 'yes: a line' "$F yes a line | head -c 700000 | cmp - /tmp/line"

    # fizzbuzz
    right 'fizzbuzz' "$F fizzbuzz --count 120000 | cmp - /tmp/fizzbuzz"
    right 'fizzbuzz: two threads' "$F fizzbuzz --threads 2 --count 120000 | cmp - /tmp/fizzbuzz"
    right 'fizzbuzz: to a file' "$F fizzbuzz --count 120000 >/tmp/w/out && cmp /tmp/w/out /tmp/fizzbuzz"
    right 'fizzbuzz: recycled' "$F fizzbuzz --recycle --count 120000 2>/dev/null | cmp - /tmp/fizzbuzz"
    right 'fizzbuzz: near its end' "$F fizzbuzz --from 18446744073709551610 | tail -n 2 | tr '\n' ' ' | grep -qx '18446744073709551614 FizzBuzz '"

    # view
    right 'view: file to pipe' "$F view -q /tmp/seq | cmp - /tmp/seq"
    right 'view: pipe to file' "cat /tmp/seq | $F view -q >/tmp/w/out && cmp /tmp/w/out /tmp/seq"
    right 'view: file to file' "$F view -q /tmp/seq >/tmp/w/out && cmp /tmp/w/out /tmp/seq"
    right 'view -L' "cat /tmp/seq | $F view -q -L 20M | cmp - /tmp/seq"
    right 'view -l -b -n' "$F view -l -b -n -i 60 /tmp/small 2>/tmp/w/out | cmp - /tmp/small && grep -qx 300 /tmp/w/out"
    right 'view -b -n' "cat /tmp/seq | $F view -b -n -i 60 2>/tmp/w/out | cmp - /tmp/seq && tail -n 1 /tmp/w/out | grep -qx $(wc -c </tmp/seq)"
    rm -f /tmp/w/*
}

# What the tools say of the way that they took. /dev/zero can be spliced from since 6.7.
explained() {
    said 'cat --explain: file to pipe' "$F cat --explain /tmp/seq | cat >/dev/null"
    said 'cat --explain: pipe to pipe' "cat /tmp/seq | $F cat --explain | cat >/dev/null"
    said 'cat --explain: file to file' "$F cat --explain /tmp/seq >/tmp/w/out"
    path 'cat --explain: /dev/zero to pipe' "$F cat --explain /dev/zero | head -c 3000000 >/dev/null"
    said 'cat --explain: pipe to file' "cat /tmp/seq | $F cat --explain >/tmp/w/out"
    said 'tee --explain' "cat /tmp/seq | $F tee --explain /tmp/w/a | cat >/dev/null"
    said 'yes --explain' "$F yes --explain | head -c 4000000 >/dev/null"
    # Without copy on write it says why.
    local words=said
    cow_is_due || words=path
    $words 'fizzbuzz --explain' "$F fizzbuzz --explain --threads 1 --count 120000 2>/tmp/w/said | cat >/dev/null; sed 's/; text by .*//' /tmp/w/said" # as the CPU has it
    said 'view --explain' "$F view -q --explain /tmp/seq | cat >/dev/null"
    rm -f /tmp/w/*
}

refusals() {
    wrong 'vmsplice into a file' 1 '^fullbore: standard output cannot be written with vmsplice: it is not a pipe; ' \
        "$F write --with vmsplice --bytes 4096 >/tmp/w/out"
    wrong 'fresh into a file' 1 '^fullbore: standard output cannot be written with fresh: it is not a pipe; ' \
        "$F write --with fresh --bytes 4096 >/tmp/w/out"
    wrong 'splice from a file' 1 '^fullbore: standard input cannot be read with splice: it is not a pipe; ' \
        "$F read --with splice --bytes 4096 </tmp/seq"
    wrong 'hugetlb pages without any' 1 '^fullbore: .*hugetlb pages refused: ' "$F write --pages hugetlb | cat >/dev/null"
    wrong 'a method that is none' 2 'invalid value .pen. for .*possible values: write, vmsplice, ' "$F write --with pen"
    wrong 'bytes that are not as they should be' 1 'verification failed: the byte at offset ' "cat /tmp/seq | $F read --verify --bytes 1M"
    if [ "$USER_OF" != root ]; then
        wrong 'a larger pipe than one may have' 1 'pipe-max-size' "$F write --pipe-size 2M --bytes 4096 | cat >/dev/null"
    fi
    rm -f /tmp/w/*
}

ladder() {
    try "$F ladder --rounds 1 --seconds 0.1 --no-save"
    cp /tmp/.out /tmp/w/ladder
    # A rung that cannot run says why in its line.
    for rung in write-read vmsplice-read-huge fat-constant copy-tuned fat-read-ahead; do
        grep -qE "^$rung +[0-9]" /tmp/w/ladder || code="$code without $rung"
    done
    ! fresh_is_due || grep -qE '^fresh-read-ahead +[0-9]' /tmp/w/ladder || code="$code without fresh-read-ahead"
    if [ "$code" = 0 ]; then
        ok "ladder ($WHO)"
    else
        bad "ladder ($WHO): expected success and every rung; came exit code $code, errors '$err', and"
        sed 's/^/    /' /tmp/w/ladder
    fi
    rm -f /tmp/w/ladder
}

# tests BINARY NAME...: tests of the library, the whole names; none: all of them.
tests() {
    local binary=/tests/$1 what=$1 line code seeds=${SEEDS:-20}
    shift
    [ -x "$binary" ] || { bad "tests $what: expected $binary; there is none"; return; }
    FULLBORE_TEST_SEEDS=$seeds FULLBORE_TEST_MIB=128 timeout -s KILL "${LIMIT:-300}" "$binary" --test-threads=1 ${1:+--exact} "$@" >/tmp/w/tests 2>&1
    code=$?
    sed -n 's/.*SKIPPED/    SKIPPED/p' /tmp/w/tests
    if fresh_is_due && grep -q 'SKIPPED.*not fresh' /tmp/w/tests; then
        bad "tests $what: expected fresh; came $(grep -m1 'SKIPPED.*not fresh' /tmp/w/tests)"
    fi
    line=$(grep '^test result: ' /tmp/w/tests)
    case $code:$line in
        '0:test result: ok. 0 passed'*) bad "tests $what: expected some of $*; came none of them" ;;
        "0:test result: ok. $# passed"*) ok "tests $what: ${line#test result: ok. }" ;;
        0:*) if [ $# = 0 ]; then ok "tests $what: ${line#test result: ok. }"; else bad "tests $what: expected $# tests; $line"; fi ;;
        *) bad "tests $what: expected success; came exit code $code"; grep -vE '^(test .* ok|running|)$' /tmp/w/tests | tail -n 40 | sed 's/^/    /' ;;
    esac
    rm -f /tmp/w/tests
}

# In the emulator these take seconds each; the first shows that what is held would be seen to change.
soundness() {
    section soundness
    if [ "$FORM" = long ]; then
        SEEDS=1000 LIMIT=3000 tests soundness
        SEEDS=1000 LIMIT=1000 tests fullbore_sys
        SEEDS=1000 LIMIT=1000 tests fullbore
        LIMIT=1000 tests moving
        LIMIT=1000 tests fanout
        return
    fi
    SEEDS=$([ "$FORM" = brief ] && echo 2 || echo 6) tests soundness \
        schedules::recycled_buffers_are_corrupted_by_a_reader_that_splices_onwards \
        schedules::page_stays_intact_while_a_pipe_further_down_holds_it \
        schedules::tee_of_the_data_stays_equal_to_it
    [ "$FORM" != brief ] || return
    SEEDS=2 tests soundness \
        schedules::reader_that_copies_gets_what_was_written \
        cow::stranger_that_holds_more_than_a_pool_keeps_every_byte \
        ahead::as_many_bytes_wait_as_may_and_flush_sends_them \
        ahead::what_waits_at_a_fork_is_sent_once_by_the_parent \
        processes::what_a_killed_writer_has_written_stays_as_it_was \
        processes::forks_and_execs_with_data_in_flight_change_nothing \
        processes::both_sides_of_a_fork_go_on_in_pipes_of_their_own \
        limits::locked_memory_is_never_written_again_while_it_is_held \
        limits::user_without_privileges_gets_every_way \
        limits::sandbox_without_vmsplice_leaves_fat
}

# Everything that a user does, as whoever be() says.
everything() {
    section "$WHO"
    ways
    doctor
    pairs
    tools
    refusals
    explained
}

switched() { # huge pages switched off and on again, reserved ones had and given back
    section 'other settings'
    if fresh_is_due; then
        local was=$(setting)
        echo never >$THP/enabled
        wrong 'fresh is refused without huge pages' 1 "$NO_FRESH" "$F write --with fresh | $F read >/dev/null"
        pair fat read
        right 'fizzbuzz without huge pages' "$F fizzbuzz --count 120000 | cmp - /tmp/fizzbuzz"
        echo madvise >$THP/enabled
        pair fresh read
        echo "$was" >$THP/enabled
    fi
    echo 4 >/proc/sys/vm/nr_hugepages
    if grep -q '^HugePages_Free: *[1-9]' /proc/meminfo; then
        pair write read '--pages hugetlb'
        pair vmsplice read '--pages hugetlb'
    else
        skip "hugetlb: the kernel reserved none"
    fi
    echo 0 >/proc/sys/vm/nr_hugepages
}

a_few() {
    section "$WHO"
    ways
    doctor
    fresh_pairs
}

if [ "$FORM" = brief ]; then
    be nobody
    everything
    be root
    soundness
    umount -l /proc
    be nobody /hidden
    a_few
else
    be root
    everything
    waits
    switched
    soundness
    be nobody
    everything
    section ladder
    ladder
    be nobody /hidden
    a_few
    tools
    [ "$FORM" = short ] || ladder
    umount -l /proc
    be root
    a_few
    pair write read '--wait spin'
    be nobody /hidden
    everything
fi

echo "summary: $oks ok, $fails failed, $skips skipped, $(($(date +%s) - start)) s"
[ $fails = 0 ]
