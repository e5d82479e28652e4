"""The last wall of the sandbox: a process asks the kernel to refuse it everything but computing (Linux, seccomp).

After `refuse_all_but_computing(3)` this process can take and return memory, write to file descriptor 3, and end.
Opening files, sockets, new processes and threads, signals to others, clocks, random numbers, executable memory: all of
these fail with "operation not permitted", and so does every system call that this page does not name. It cannot be
undone, not even by root. Only the standard library is imported: `child.py` runs this in a bare interpreter.
"""

import ctypes
import errno
import platform
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # classic BPF: ld abs word; jeq; jset; ret
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_PROT_EXEC = 4

# machine: (audit number, allowed calls, write, calls whose third argument is a memory protection)
_MACHINES = {
    "x86_64": (
        0xC000003E,
        # munmap brk rt_sigprocmask rt_sigreturn sched_yield mremap madvise exit futex restart_syscall exit_group
        (11, 12, 14, 15, 24, 25, 28, 60, 202, 219, 231),
        1,
        (9, 10),
    ),
    "aarch64": (0xC00000B7, (215, 214, 135, 139, 124, 216, 233, 93, 98, 128, 94), 64, (222, 226)),
}


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def _instructions(machine: str, result: int) -> list[tuple[int, int, int, int]]:
    """(code, jump if so, jump if not, operand): the only way to _ALLOW is a call that is named here."""
    audit, allowed, write, protections = _MACHINES[machine]
    program = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, _NUMBER)]
    for number in allowed:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for number in protections:  # the low word of the third argument
        program += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _ARGUMENTS + 16), (_ANY_BIT, 1, 0, _PROT_EXEC)]
        program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    program += [(_EQUAL, 0, 3, write), (_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 0, 1, result), (_RETURN, 0, 0, _ALLOW)]
    return [*program, (_RETURN, 0, 0, _REFUSE)]


def is_available() -> bool:
    """Whether this machine's system calls are known here; whether they are then refused is for a probe to find out."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def refuse_all_but_computing(result: int) -> None:
    """From here on this process may compute, and write to the descriptor `result`. Raises OSError where that fails."""
    steps = [_Instruction(*step) for step in _instructions(platform.machine(), result)]
    array = (_Instruction * len(steps))(*steps)
    program = _Program(len(steps), array)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    none = ctypes.c_ulong(0)
    if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none):
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    if prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), none, none):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it ends (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)
