#!/bin/sh
# The linker of what shares the runtime: `cc`. Given NEARCALL_EXPORTS, the path of a version script, a library exports
# what that lists, in place of each function of each crate, and has only what is needed for it.
if [ -n "$NEARCALL_EXPORTS" ]; then
    for word do
        case $word in
        -Wl,--version-script=*) cp -- "$NEARCALL_EXPORTS" "${word#*=}" || exit ;;
        esac
    done
    set -- "$@" -Wl,--gc-sections
fi
exec cc "$@"
