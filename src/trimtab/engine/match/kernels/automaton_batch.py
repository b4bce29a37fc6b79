"""The automaton at the start and the end of a batch: memory for results, threads loaded, threads saved."""

from __future__ import annotations

from trimtab.engine.match.compile.analysis import FixedLabel, RowsBack
from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import END, POSITION, START, Bank, Register, bank, initial
from trimtab.engine.match.kernels.configurations import Configurations, end_name, start_name
from trimtab.engine.match.kernels.interface import ERROR_STATE


def allocate(found: Configurations) -> None:
    """Set all results, and all local names to a first value, so that the compiler knows their types."""
    write, layout = found.write, found.kernel.layout
    # Matches can't overlap, so their number is bounded, and the caller has allocated room for all of them.
    write("match_count = 0; match_ints = room_ints; match_floats = room_floats")
    write("path_rows = ints(0); path_positions = ints(0)")
    write("saved_capacity = 256; saved_count = 0; saved_offsets = ints(key_count + 1)")
    write(f"saved_ints = ints(saved_capacity * {layout.int_width})")
    write(f"saved_floats = floats(saved_capacity * {len(layout.floats)}); saved_objects = objects(0)")
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


def load_threads(found: Configurations) -> None:
    """Find the configuration that the key's threads form, and copy their registers into local names."""
    write = found.write
    write("thread_count = old_offsets[key + 1] - old_offsets[key]; configuration = 0")
    with write.block("if thread_count > 0:"):
        write("configuration = -1; base = old_offsets[key]")
        for configuration, number in found.numbers.items():
            if not configuration:
                continue
            tests = [f"thread_count == {len(configuration)}"]
            tests += [f"{_old(found, at, POSITION)} == {position}" for at, position in enumerate(configuration)]
            with write.block(f"if {' and '.join(tests)}:"):
                write(f"configuration = {number}")
                for at, position in enumerate(configuration):
                    write(f"{start_name(at)} = {_old(found, at, START)}")
                    if position == DONE:
                        write(f"{end_name(at)} = {_old(found, at, END)}")
                    for register in found.kept(position):
                        write(f"{found.name(at, register)} = {_old(found, at, register)}")
        with write.block("if configuration < 0:"):
            write(f"error = {ERROR_STATE}; configuration = 0")


def end_input(found: Configurations) -> None:
    """If the input has ended, drop threads under way and report those that have ended."""
    write = found.write
    with write.block("if closing != 0:"):
        for configuration, number in found.numbers.items():
            ended = [at for at, position in enumerate(configuration) if position == DONE]
            if ended:
                with write.block(f"if configuration == {number}:"):
                    for at in ended:
                        found.report(found.ended(at))
        write("configuration = 0")


def save_threads(found: Configurations) -> None:
    """Save the threads as the general kernel does, so that either can go on with them."""
    write, layout = found.write, found.kernel.layout
    write("numbers_after[key] = number; resumes[key] = row; saved_offsets[key] = saved_count")
    longest = max(len(configuration) for configuration in found.order)
    with write.block(f"if saved_count + {longest} > saved_capacity:"):
        write(f"saved_capacity = 2 * (saved_count + {longest})")
        for bank_name, width in (("ints", layout.int_width), ("floats", len(layout.floats))):
            sizes = f"saved_capacity * {width}, saved_count * {width}"
            write(f"saved_{bank_name} = grow_{bank_name}(saved_{bank_name}, {sizes})")
    for configuration, number in found.numbers.items():
        if configuration:
            with write.block(f"if configuration == {number}:"):
                for at, position in enumerate(configuration):
                    write(f"{_saved(found, at, POSITION)} = {position}; {_saved(found, at, START)} = {start_name(at)}")
                    write(f"{_saved(found, at, END)} = {end_name(at) if position == DONE else 'row - 1'}")
                    for register in layout.registers:
                        write(f"{_saved(found, at, register)} = {_saved_value(found, at, position, register)}")
                write(f"saved_count += {len(configuration)}")


def _old(found: Configurations, at: int, field: int | Register) -> str:
    """Code for a fixed field or a register of a thread that an earlier batch left."""
    return _element(found, "old", f"(base + {at})", field)


def _saved(found: Configurations, at: int, field: int | Register) -> str:
    """Code for a fixed field or a register of a thread that is saved."""
    return _element(found, "saved", f"(saved_count + {at})", field)


def _element(found: Configurations, group: str, thread: str, field: int | Register) -> str:
    layout = found.kernel.layout
    index = field if isinstance(field, int) else layout.at[field]
    if not isinstance(field, int) and bank(field) is Bank.FLOAT:
        return f"{group}_floats[{thread} * {len(layout.floats)} + {index}]"
    return f"{group}_ints[{thread} * {layout.int_width} + {index}]"


def _saved_value(found: Configurations, at: int, position: int, register: Register) -> str:
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
