#!/usr/bin/env bash
# Exit codes, streams, completion and the progress line of the program:
# cli_test.sh TRIREME SOURCE_DIR
set -u
trireme=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CI NO_COLOR
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect CODE ARGUMENTS...: the exit code; a failure leaves standard output empty and says
# something.
expect() {
  local code=$1
  shift
  "$trireme" "$@" >out 2>err </dev/null
  local got=$?
  [[ $got == "$code" ]] || { fail "exit $got instead of $code: trireme $*"; tail -n 5 err; }
  if ((code != 0 && code != 130)); then
    [[ ! -s out ]] || fail "standard output of a failure: trireme $*"
    [[ -s err ]] || fail "a failure without words: trireme $*"
  fi
}
# said TEXT: standard error of the last command holds it.
said() { grep -qF -- "$1" err || { fail "not said: $1"; cat err; }; }
printed() { grep -qF -- "$1" out || { fail "not printed: $1"; head -n 5 out; }; }

tiny=$root/configs/tiny-gpt2.toml

expect 0 --version
expect 0 --help
expect 0 help config show
expect 0 help --man
expect 0 doctor
expect 0 config show "$tiny" --set model.layers=16
printed 'layers = 16'
expect 0 config show --set model.preset=gpt2-124m
printed 'vocab_size = 50257'
expect 0 config explain "$tiny"
expect 0 plan "$tiny" --json
printed '"params"'
expect 0 plan "$tiny" --cluster "$root/clusters/dgx-a100-80g.toml" --explain
printed 'predicted for DGX A100'
printed 'matmul_share'
printed 'configured'
expect 0 plan "$tiny" --graph
printed 'attn.wq'
expect 0 plan --graph "$tiny" --graph=graph.svg
grep -q 'linear attn.wq' graph.svg || fail "no op in the picture of the graphs"
expect 2 plan "$tiny" --graph graph.png
# The layout search ignores the layout of the configuration, even if it is infeasible, and `plan`
# accepts the command that it prints.
searched=(--cluster "$root/clusters/dgx-a100-80g.toml" --set batch.global_sequences=8)
expect 2 plan "$tiny" --ranks 8 --set batch.micro_sequences=8 "${searched[@]}"
expect 0 plan "$tiny" --ranks 8 --set batch.micro_sequences=8 "${searched[@]}" --search \
  --html page.html
printed 'the layout marked * runs with'
[[ -s page.html ]] || fail "no page of the search"
read -r -a found <<<"$(tail -n 1 out)"
expect 0 plan "${found[@]:2}" --cluster "$root/clusters/dgx-a100-80g.toml"
expect 0 plan "$tiny" --ranks 8 "${searched[@]}" --pareto
printed "pure FSDP: "
printed "layouts that nothing beats"
# A layout goes to another trainer and comes back.
expect 0 plan "$tiny" --set parallel.dp=2 --set parallel.zero=1 --export megatron -o job.sh
said "wrote job.sh"
expect 0 plan --from megatron job.sh --json
printed '"params"'
expect 0 plan --from=megatron job.sh --search "${searched[@]:0:2}"
printed "trireme plan --from megatron job.sh"
expect 0 plan "$tiny" --export nanotron --set model.family=llama --set model.bias=false
printed 'pp_engine: "1f1b"'
expect 0 plan --from megatron "${searched[@]:0:2}" -- --num-layers 2 --hidden-size 64 \
  --num-attention-heads 4 --seq-length 64 --vocab-size 256 --micro-batch-size 1
said "--ranks N"
expect 2 plan --from megatron
said 'name its file'
expect 2 plan --from megatron nowhere.sh
said 'nowhere.sh: no such file'
expect 2 plan --from nemo job.sh
expect 2 plan "$tiny" -o job.sh
said 'add --export TRAINER'
expect 2 plan
said 'RUN.toml is missing'
expect 3 plan "$tiny" --set parallel.pp=2 --set parallel.schedule=gpipe --export megatron
said 'parallel.schedule = "gpipe" cannot be written for Megatron-LM'
expect 0 calibrate --out here.toml --seconds 0
expect 0 plan "$tiny" --cluster here.toml --explain --json
printed '"alternatives"'
expect 0 schedule 1f1b --stages 2 --microbatches 4

# 2: wrong usage or configuration
expect 2
expect 2 trian "$tiny"
said 'did you mean train?'
expect 2 report nowhere
said 'nowhere: no such folder'
expect 2 train
expect 2 train "$tiny" --otu x
said 'did you mean --out?'
expect 2 train "$root/configs/tiny-gpt.toml"
said 'tiny-gpt2.toml?'
expect 2 train "$tiny" --set model.layer=2
said 'did you mean model.layers?'
expect 2 train "$tiny" --set model.layers=two
expect 2 train "$tiny" --ranks 3 --set parallel.tp=2
printf '[model]\nheads = 3\nlayrs = 2\n' >wrong.toml
expect 2 plan "$tiny" wrong.toml
said 'wrong.toml:3: model.layrs is unknown; did you mean model.layers?'
printf '[model\n' >wrong.toml
expect 2 plan wrong.toml
said 'wrong.toml:1:'

expect 2 plan "$tiny" --cluster "$root/clusters/dgx-a100-80.toml"
said 'dgx-a100-80g.toml?'
printf '[device]\nfp32_flop = 1\n' >wrong.toml
expect 2 plan "$tiny" --cluster wrong.toml
said 'wrong.toml:2: device.fp32_flop is unknown; did you mean device.fp32_flops?'

# 3: the plan does not fit
expect 3 plan "$tiny" --set model.preset=gpt3-175b --cluster "$root/clusters/dgx-a100-80g.toml"
expect 3 plan "$tiny" --set memory.limit_bytes=1000
expect 3 plan "$tiny" --ranks 2 --search --set memory.limit_bytes=1000 \
  --cluster "$root/clusters/dgx-a100-80g.toml"
said "no layout of 2 ranks is feasible"
# 4: a file is damaged
head -c 4096 /dev/urandom >noise.tok
expect 4 data inspect noise.tok
# A large token file is verified chunk by chunk while it is read: damage ends the run, even if every
# damaged token is still in the vocabulary.
head -c 36000000 /dev/zero | tr '\0' 'a' >text.txt
expect 0 data prepare text.txt --tokenizer byte --out large --val-fraction 0
large=(--set data.source=files --set data.train=large/train.tok --set model.vocab_size=512)
head -c 60000000 /dev/zero |
  dd of=large/train.tok bs=1M seek=1 iflag=fullblock conv=notrunc status=none
expect 4 train "$tiny" --out damaged-data "${large[@]}"
said 'large/train.tok: chunk '
tail -n 1 damaged-data/metrics.jsonl | grep -q '"event":"failure".*large/train.tok: chunk ' ||
  fail "no failure event of a damaged chunk"
expect 0 data inspect large/train.tok
expect 4 data inspect large/train.tok --verify
said 'large/train.tok: chunk 15 (bytes 983104 to 1048639)'
# A file that is truncated during a run ends it in the same way, and not by a signal.
expect 2 data prepare text.txt --tokenizer byte --out large --val-fraction 0
said 'large/train.tok exists; choose another folder'
rm -r large
expect 0 data prepare text.txt --tokenizer byte --out large --val-fraction 0
"$trireme" train "$tiny" --out truncated-data "${large[@]}" --set run.steps=100000000 >out 2>err &
trained=$!
for ((i = 0; i < 600; ++i)); do
  grep -qs '"event":"train"' truncated-data/metrics.jsonl && break
  sleep 0.1
done
truncate -s 4096 large/train.tok
wait "$trained"
got=$?
[[ $got == 4 ]] ||
  { fail "exit $got instead of 4 of a run whose token file was truncated"; cat err; }
said 'the file ends at byte 4096;'
tail -n 1 truncated-data/metrics.jsonl | grep -q '"event":"failure".*the file ends at byte 4096;' ||
  fail "no failure event of a truncated file"
head -c 4096 /dev/zero >tokens.bin
expect 0 data inspect tokens.bin
printed 'checksum: none'
rm -r large text.txt
# What lies in a file beside the run changes no loss and goes with it; a folder that cannot have
# one.
expect 0 train "$tiny" --out in-memory
expect 0 train "$tiny" --out in-file --set memory.offload=optimizer \
  --set memory.offload_buffer_bytes=65536
losses() { grep -o '"loss":[^,]*' "$1/metrics.jsonl"; }
[[ $(losses in-memory) == "$(losses in-file)" ]] || fail "memory.offload changes losses"
compgen -G 'in-file/offload*' >/dev/null && fail "the file of memory.offload is left behind"
expect 4 train "$tiny" --out no-file --set memory.offload=optimizer \
  --set memory.offload_folder=/proc/none
said 'memory.offload_folder'
# 5: the machine fails
if [[ -w /dev/full ]]; then
  "$trireme" config show >/dev/full 2>err
  [[ $? == 4 ]] || fail "a full disk behind standard output must end with 4"
fi

# A stopped run exits with 130, a finished one with 0. A folder that is not empty is not changed.
expect 130 train "$tiny" --out run --set run.stop_after=3
expect 2 train "$tiny" --out run
said '--resume auto'
expect 0 train "$tiny" --out run --resume auto
[[ $(grep -c '"event":"train"' run/metrics.jsonl) == 20 ]] || fail "20 steps in metrics.jsonl"
"$trireme" config diff "$tiny" run/config.resolved.toml >out || fail "config.resolved.toml loads"
grep -vq 'stop_after' out && grep -v 'stop_after' out && fail "config.resolved.toml differs"

# Escape sequences from names and files are printed as text in messages, and in data that go to a
# terminal.
expect 2 plan $'no-\e]0;title\a\e[31m.toml'
said '\x1b]0;title\x07\x1b[31m'
LC_ALL=C grep -q $'[\x1b\x07]' err && fail "an escape sequence in a message"
echo 27 91 51 49 109 | "$trireme" tokenizer decode --tokenizer byte >out
grep -q $'\x1b\\[31m' out || fail "data behind a pipe are changed"
if command -v script >/dev/null; then
  script -qec "echo 27 91 51 49 109 | '$trireme' tokenizer decode --tokenizer byte" /dev/null >out
  grep -q '\\x1b\[31m' out || { fail "an escape sequence is not made visible"; cat -v out; }
  grep -q $'\x1b' out && fail "an escape sequence reaches the terminal"
fi

# A log has no terminal controls; a terminal is never wrapped, and has colours unless they are
# unwanted.
LC_ALL=C grep -q $'[\r\x1b]' err && fail "terminal controls in a log"
if command -v script >/dev/null; then
  terminals=0
  on_terminal() {  # environment assignments
    script -qec "stty cols 40; env $* '$trireme' train '$tiny' --out '$work/tty$((++terminals))'" \
      /dev/null
  }
  TERM=xterm on_terminal A=b >tty
  grep -q $'\x1b\\[2K' tty || fail "no progress line on a terminal"
  grep -q $'\x1b\\[1m' tty || fail "no colours on a terminal"
  # Each redrawing is one line, narrower than the terminal.
  widest=$(tr '\r' '\n' <tty | sed -n 's/^\x1b\[2K//p' | sed 's/\x1b\[[0-9]*m//g' |
           grep '^step .*/20' | awk '{if (length($0) > w) w = length($0)} END {print w + 0}')
  ((widest > 0 && widest < 40)) || fail "progress line of $widest columns on a terminal of 40"
  # A terminal that becomes narrower in the middle of a run: no line behind the next redrawing is
  # wider.
  TERM=xterm script -qec "stty cols 90
    '$trireme' train '$tiny' --set run.steps=200 --out '$work/resized' & sleep 0.7
    stty cols 40; printf '\\nNARROW\\n'; wait" /dev/null >tty
  widest=$(tr '\r' '\n' <tty | sed '1,/^NARROW/d' | sed -n 's/^\x1b\[2K//p' |
           sed 's/\x1b\[[0-9]*m//g' |
           grep '^step .*/200' | awk '{if (length($0) > w) w = length($0)} END {print w + 0}')
  ((widest < 40)) || fail "progress line of $widest columns after a resize to 40"
  TERM=xterm on_terminal NO_COLOR=1 >tty
  grep -q $'\x1b\\[1m' tty && fail "colours in spite of NO_COLOR"
  TERM=xterm on_terminal CI=true >tty
  grep -q $'\x1b\\[2K' tty && fail "redrawing in spite of CI"
fi

# Tests completion in the shells that are installed.
"$trireme" completion bash >completion.bash || fail "completion bash"
complete_words() {  # words...: what is offered for the last one
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _trireme
  echo "${COMPREPLY[*]}"
}
compopt() { :; }
source ./completion.bash
[[ $(complete_words trireme tra) == train ]] || fail "completion of a command"
[[ $(complete_words trireme config ex) == explain ]] || fail "completion of a subcommand"
[[ $(complete_words trireme train --res) == --resume ]] || fail "completion of an option"
[[ $(complete_words trireme train --set model.layers) == model.layers= ]] ||
  fail "completion of a key"
[[ $(complete_words trireme train --set parallel.schedule = zb_v) == zb_v ]] ||
  fail "completion of a key's value"
[[ $(complete_words trireme schedule dualpipev) == dualpipev ]] || fail "completion of a choice"
for shell in zsh fish; do
  "$trireme" completion $shell >completion.$shell || fail "completion $shell"
done
if command -v fish >/dev/null; then
  fish -n completion.fish || fail "syntax for fish"
  offered() { fish --no-config -c "source completion.fish; complete -C '$1'" | cut -f1; }
  [[ $(offered 'trireme tra') == train ]] || fail "fish: completion of a command"
  [[ $(offered 'trireme config ex') == explain ]] || fail "fish: completion of a subcommand"
  [[ $(offered 'trireme train --res') == --resume ]] || fail "fish: completion of an option"
  [[ $(offered 'trireme train --set model.layers') == model.layers= ]] ||
    fail "fish: completion of a key"
  [[ $(offered 'trireme schedule dualpipev') == dualpipev ]] || fail "fish: completion of a choice"
fi
if command -v zsh >/dev/null; then
  zsh -n completion.zsh || fail "syntax for zsh"
  # Runs a shell on its own terminal, because zsh completes only on terminals, and prints what
  # follows a tab.
  mkdir functions
  cp completion.zsh functions/_trireme
  cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell \
  'PS1=; fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; print READY'
zpty -r shell seen '*READY*READY*'
zpty -w -n shell "$1"$'\t'
zpty -w -n shell $'\C-a print -r "<\C-e>"\n'
zpty -r shell seen '*<*>*<*>*'
print -r -- ${${seen##*<}%%>*}
END
  offered() { timeout 20 zsh -f complete.zsh "$1" | tr -d '\r'; }
  [[ $(offered 'trireme tra') == 'trireme train'* ]] || fail "zsh: completion of a command"
  [[ $(offered 'trireme config ex') == 'trireme config explain'* ]] ||
    fail "zsh: completion of a subcommand"
  [[ $(offered 'trireme train --res') == 'trireme train --resume'* ]] ||
    fail "zsh: completion of an option"
  [[ $(offered 'trireme train --set model.layers') == *model.layers=* ]] ||
    fail "zsh: completion of a key"
fi

# groff must not warn about the manual page.
if command -v groff >/dev/null; then
  "$trireme" help --man | groff -man -ww -Tutf8 -z 2>&1 | head -n 5 >man.txt
  [[ ! -s man.txt ]] || { fail "the manual page"; cat man.txt; }
fi

((failures == 0)) && echo "all good"
exit $((failures > 0))
