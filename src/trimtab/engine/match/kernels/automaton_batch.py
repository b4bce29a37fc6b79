"""The automaton at the edges of a batch: room for results, threads that come in, threads that are left."""

from __future__ import annotations

from trimtab.engine.match.compile.analysis import FixedLabel, RowsBack
from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import Bank, Register, bank, initial
from trimtab.engine.match.kernels.configurations import Configurations, end_name, start_name
from trimtab.engine.match.kernels.interface import ERROR_STATE
from trimtab.engine.match.kernels.plan import END, POSITION, START


def make_room(found: Configurations) -> None:
    """All results, and all local names with a first value, so that the compiler knows their types."""
    write, kernel = found.write, found.kernel
    # Matches can't overlap, so their number is bounded, and the caller has set aside room for all of them.
    write("match_count = 0; match_ints = room_ints; match_floats = room_floats")
    write("path_rows = ints(0); path_positions = ints(0)")
    write("saved_capacity = 256; saved_count = 0; saved_offsets = ints(key_count + 1)")
    write(f"saved_ints = ints(saved_capacity * {kernel.width})")
    write(f"saved_floats = floats(saved_capacity * {kernel.float_width}); saved_objects = objects(0)")
    write("saved_node_count = 0; saved_node_offsets = ints(0); saved_nodes = ints(0)")
    write("resumes = ints(key_count); numbers_after = ints(key_count); fronts_after = fronts")
    write("error = 0; error_count = 0; error_key = -1; number = 0")
    names: dict[str, str] = {}
    for configuration in found.order:
        for at, position in enumerate(configuration):
            names[start_name(at)] = "0"
            names[end_name(at)] = "0"
            for register in found.kept(position):
                names[found.name(at, register)] = "0.0" if bank(register) is Bank.FLOAT else "0"
    for name, value in names.items():
        write(f"{name} = {value}")


def threads_come_in(found: Configurations) -> None:
    """Find the configuration that the key's threads form, and take their registers into local names."""
    write, kernel = found.write, found.kernel
    write("thread_count = old_offsets[key + 1] - old_offsets[key]; configuration = 0")
    with write.block("if thread_count > 0:"):
        write("configuration = -1; base = old_offsets[key]")
        for configuration, number in found.numbers.items():
            if not configuration:
                continue
            tests = [f"thread_count == {len(configuration)}"] + [
                f"old_ints[(base + {at}) * {kernel.width} + {POSITION}] == {position}"
                for at, position in enumerate(configuration)
            ]
            with write.block(f"if {' and '.join(tests)}:"):
                write(f"configuration = {number}")
                for at, position in enumerate(configuration):
                    _thread_comes_in(found, at, position)
        with write.block("if configuration < 0:"):
            write(f"error = {ERROR_STATE}; configuration = 0")


def _thread_comes_in(found: Configurations, at: int, position: int) -> None:
    write, kernel = found.write, found.kernel
    ints, floats = f"(base + {at}) * {kernel.width}", f"(base + {at}) * {kernel.float_width}"
    write(f"{start_name(at)} = old_ints[{ints} + {START}]")
    if position == DONE:
        write(f"{end_name(at)} = old_ints[{ints} + {END}]")
    for register in found.kept(position):
        slot = kernel.layout.at[register]
        is_float = bank(register) is Bank.FLOAT
        source = f"old_floats[{floats} + {slot}]" if is_float else f"old_ints[{ints} + {slot}]"
        write(f"{found.name(at, register)} = {source}")


def input_ends(found: Configurations) -> None:
    """The input ends: threads under way die, ended ones are reported."""
    write = found.write
    with write.block("if closing != 0:"):
        for configuration, number in found.numbers.items():
            ended = [at for at, position in enumerate(configuration) if position == DONE]
            if ended:
                with write.block(f"if configuration == {number}:"):
                    for at in ended:
                        found.report(found.ended(at))
        write("configuration = 0")


def threads_are_left(found: Configurations) -> None:
    """Write the threads out as the general kernel does, so that either can go on with them."""
    write, kernel = found.write, found.kernel
    write("numbers_after[key] = number; resumes[key] = row; saved_offsets[key] = saved_count")
    longest = max(len(configuration) for configuration in found.order)
    with write.block(f"if saved_count + {longest} > saved_capacity:"):
        write(f"saved_capacity = 2 * (saved_count + {longest})")
        for bank_name, width in (("ints", kernel.width), ("floats", kernel.float_width)):
            sizes = f"saved_capacity * {width}, saved_count * {width}"
            write(f"saved_{bank_name} = grow_{bank_name}(saved_{bank_name}, {sizes})")
    for configuration, number in found.numbers.items():
        if configuration:
            with write.block(f"if configuration == {number}:"):
                for at, position in enumerate(configuration):
                    _thread_is_left(found, at, position)
                write(f"saved_count += {len(configuration)}")


def _thread_is_left(found: Configurations, at: int, position: int) -> None:
    write, kernel = found.write, found.kernel
    ints, floats = f"(saved_count + {at}) * {kernel.width}", f"(saved_count + {at}) * {kernel.float_width}"
    write(f"saved_ints[{ints} + {POSITION}] = {position}; saved_ints[{ints} + {START}] = {start_name(at)}")
    write(f"saved_ints[{ints} + {END}] = {end_name(at) if position == DONE else 'row - 1'}")
    for register in kernel.layout.registers:
        slot = kernel.layout.at[register]
        is_float = bank(register) is Bank.FLOAT
        target = f"saved_floats[{floats} + {slot}]" if is_float else f"saved_ints[{ints} + {slot}]"
        write(f"{target} = {_value_left(found, at, position, register)}")


def _value_left(found: Configurations, at: int, position: int, register: Register) -> str:
    """Code for a register's value: its local name, or what follows from the position."""
    if register in found.kept(position):
        return found.name(at, register)
    if position != DONE:
        fact = found.kernel.facts[position][register]
        if fact == RowsBack(0, 0):
            return "row - 1"
        if isinstance(fact, FixedLabel):
            return str(fact.label)
    return repr(initial(register))
