# fish completion for holdfast. A command has one line below "Commands" and a part of its own.
function __holdfast_command_is
    set -l words (commandline -opc)
    test (count $words) -gt 1 -a "$words[2]" = "$argv[1]"
end
function __holdfast_no_command
    test (count (commandline -opc)) -eq 1
end

complete -c holdfast -f
complete -c holdfast -n __holdfast_no_command -l version -d 'Print the version'
complete -c holdfast -l help -d 'Print the options'
complete -c holdfast -n 'not __holdfast_no_command' -l url -x -d 'The server'

# Commands
complete -c holdfast -n __holdfast_no_command -a run -d 'Run a command under a lock'
complete -c holdfast -n __holdfast_no_command -a bench -d 'Check the server and measure locks on it'
complete -c holdfast -n __holdfast_no_command -a ls -d 'List all locks'
complete -c holdfast -n __holdfast_no_command -a inspect -d 'Show everything about one lock'
complete -c holdfast -n __holdfast_no_command -a top -d 'Show all locks, live'
complete -c holdfast -n __holdfast_no_command -a break -d 'Take a lock away from one holder'
complete -c holdfast -n __holdfast_no_command -a set -d 'Store how many permits a lock has'
complete -c holdfast -n __holdfast_no_command -a once -d 'Look at calls that are made once, and settle them'
complete -c holdfast -n __holdfast_no_command -a deadlocks -d 'Find owners that wait for each other'
complete -c holdfast -n __holdfast_no_command -a members -d 'Show the masters of a quorum'

# run
set -l run '__holdfast_command_is run'
complete -c holdfast -n $run -s w -l timeout -x -d 'How long to wait for the lock'
complete -c holdfast -n $run -s n -l nonblock -d 'Do not wait'
complete -c holdfast -n $run -s E -l conflict-exit-code -x -d 'Exit status if others hold it'
complete -c holdfast -n $run -s c -l command -x -d 'Run a string in a shell'
complete -c holdfast -n $run -l shell -r -F -d 'The shell for -c'
complete -c holdfast -n $run -l lease -x -d 'How long the lock may outlive a crash'
complete -c holdfast -n $run -l on-lost -x -a 'kill term ignore' -d 'What to do if the lock is lost'
complete -c holdfast -n $run -l max-hold -x -d 'End the command after a time'
complete -c holdfast -n $run -s k -l kill-after -x -d 'The time from TERM to KILL'
complete -c holdfast -n $run -l once-per -x -d 'Run once per period on all hosts'
complete -c holdfast -n $run -s s -l shared -d 'Hold it shared'
complete -c holdfast -n $run -s x -l exclusive -d 'Hold it exclusively'
complete -c holdfast -n $run -l permits -x -d 'Hold it shared, by at most that number'
complete -c holdfast -n $run -l weight -x -d 'Take that many of the permits'
complete -c holdfast -n $run -l ahead -x -d 'Queue as if it had arrived earlier'
complete -c holdfast -n $run -l rate -x -d 'Run at most that number in any such time: 10/1m'
complete -c holdfast -n $run -l gate -d 'Run as often as the stored rate allows'
complete -c holdfast -n $run -l owner -x -d 'The owner that holds it'
complete -c holdfast -n $run -l note -x -d 'What it is held for'
complete -c holdfast -n $run -s q -l quiet -d 'Do not report that others hold it'
complete -c holdfast -n $run -s v -l verbose -d 'Report when it is acquired'
complete -c holdfast -n "$run; and contains -- -- (commandline -opc)" -F -a '(__fish_complete_subcommand --fcs-skip=3)'

# bench
set -l bench '__holdfast_command_is bench'
complete -c holdfast -n $bench -s s -l seconds -x -d 'How long each measurement takes'
complete -c holdfast -n $bench -s t -l threads -x -d 'How many threads measure at once'
complete -c holdfast -n $bench -l name -x -d 'How the names of its locks begin'
complete -c holdfast -n $bench -l plan -x -d 'Print what a fleet needs: locks=N,hosts=N,rate=N'
complete -c holdfast -n $bench -s c -l check -d 'Check the settings only'
complete -c holdfast -n $bench -l json -d 'Print one object per line'

# ls, inspect, top, deadlocks
for name in ls inspect top deadlocks
    set -l look "__holdfast_command_is $name"
    complete -c holdfast -n $look -l held-longer -x -d 'Only if a holder has held it for longer'
    complete -c holdfast -n $look -l waiting-longer -x -d 'Only if a waiter has waited for longer'
    complete -c holdfast -n $look -l json -d 'Print one object per line'
end
complete -c holdfast -n '__holdfast_command_is ls' -l owner -x -d 'Only if this owner holds it or waits'
for name in ls top deadlocks
    complete -c holdfast -n "__holdfast_command_is $name" -l rate -x -d 'The most locks read per second'
end
for name in ls top
    complete -c holdfast -n "__holdfast_command_is $name" -l once -d 'Also the records of calls that are made once'
end
complete -c holdfast -n '__holdfast_command_is deadlocks' -l watch -d 'Search again and again'

complete -c holdfast -n '__holdfast_command_is members' -l json -d 'Print one object per line'

# top
set -l top '__holdfast_command_is top'
complete -c holdfast -n $top -s d -l delay -x -d 'The time between two refreshes'
complete -c holdfast -n $top -s o -l sort -x -a 'waiters held waited remaining name fence call' -d 'The sort key'
complete -c holdfast -n $top -s r -l reverse -d 'Reverse the order'
complete -c holdfast -n $top -s b -l batch -d 'Print snapshots'
complete -c holdfast -n $top -s n -l iterations -x -d 'Exit after that number of snapshots'

# set
set -l set '__holdfast_command_is set'
complete -c holdfast -n $set -l permits -x -d 'The number of permits'
complete -c holdfast -n $set -l rate -x -d 'The passes of a gate in any such time: 10/1m'
complete -c holdfast -n $set -l no-limit -d 'Remove the limit'
complete -c holdfast -n $set -l hex -d 'The name is given in hex digits'

# break
set -l break '__holdfast_command_is break'
complete -c holdfast -n $break -l fence -x -d 'Only from the holder with this fence'
complete -c holdfast -n $break -l foreign -d "Delete another library's lock"
complete -c holdfast -n $break -s y -l yes -d 'Do not ask for confirmation'
complete -c holdfast -n $break -l json -d 'Print the former holder as an object'
for name in inspect break once
    complete -c holdfast -n "__holdfast_command_is $name" -l hex -d 'The name is given in hex digits'
end

# once
set -l once '__holdfast_command_is once'
set -l once_first "$once; and test (count (commandline -opc)) -eq 2"
complete -c holdfast -n $once_first -a ls -d 'List the records'
complete -c holdfast -n $once_first -a show -d 'Show one record'
complete -c holdfast -n $once_first -a resolve -d 'Keep a result or an error'
complete -c holdfast -n $once_first -a retry -d 'Allow the next caller to make the call again'
complete -c holdfast -n $once_first -a forget -d 'Drop the record'
complete -c holdfast -n $once -l state -x -a 'unknown running retry failed done' -d 'Only records in this state'
complete -c holdfast -n $once -l rate -x -d 'The most locks read per second'
complete -c holdfast -n "$once; and contains -- show (commandline -opc)" -l result -d 'Print only the bytes of the result'
complete -c holdfast -n "$once; and not contains -- show (commandline -opc)" -l result -r -F -d 'The bytes of the result'
complete -c holdfast -n $once -l error -r -F -d 'The bytes of an error'
complete -c holdfast -n $once -l ttl -x -d 'How long it is kept'
complete -c holdfast -n $once -l fence -x -d 'Only the record with this fence'
complete -c holdfast -n $once -l force -d 'Also while the call is in progress'
complete -c holdfast -n $once -l note -x -d 'Why'
complete -c holdfast -n $once -l json -d 'Print one object per line'
