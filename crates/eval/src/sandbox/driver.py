# Runs one program and says on the reply pipe how it went. Stands inside the sandbox; everything it runs is hostile.
#
# The request is JSON on standard input: a nonce that the reply must repeat, a job, and its texts. Two lines answer it:
# that the job begins, from when its clock runs, and how it ended. A program that ends the interpreter (exit, os._exit, a
# signal) never gets to the second, so it has not passed.
import ast
import json
import os
import sys

LONGEST = 100  # lines that are searched for a program


def longest_program(text):
    """The lines that parse as a program and hold the most that is not blank; the first such where several do."""
    lines = text.splitlines()[:LONGEST]
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line.strip()))
    spans = [(i, j) for i in range(len(lines)) for j in range(i + 1, len(lines) + 1)]
    spans.sort(key=lambda span: (filled[span[0]] - filled[span[1]], span))
    for i, j in spans:
        if filled[j] == filled[i]:
            break
        snippet = "\n".join(lines[i:j])
        try:
            ast.parse(snippet)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        return snippet
    return ""


def names_in(node):
    """Names and attributes a definition mentions. What stands behind an attribute's dot or inside its base is not entered."""
    found, waiting = set(), [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.Name):
                found.add(child.id)
            elif isinstance(child, ast.Attribute):
                found.add(child.attr)
            else:
                waiting.append(child)
    return found


def sanitize(text, entry_point):
    """Imports, and the definitions that the entry point leads to; functions that return nothing are left out."""
    text = text.replace("\t", "    ").replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"
    imports, definitions = [], {}
    for node in ast.parse(longest_program(text)).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            if any(isinstance(part, ast.Return) for part in ast.walk(node)):
                definitions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            definitions[node.targets[0].id] = node
    reached, waiting = set(), {entry_point}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        if name in definitions:
            waiting |= names_in(definitions[name]) - reached
    kept = imports + [node for name, node in definitions.items() if name in reached]
    return "\n".join(ast.unparse(node) for node in kept)


def main():
    request = json.loads(sys.stdin.buffer.read())
    pipe, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)

    def reply(**fields):
        answer = {"nonce": request["nonce"], "layers": os.environ.get("DEMASK_SANDBOX", ""), **fields}
        os.write(pipe, json.dumps(answer).encode() + b"\n")

    reply(started=True)
    try:
        if request["job"] == "sanitize":
            reply(text=sanitize(request["code"], request["entry_point"]))
        else:
            program = request["code"] + "\n" + request["tests"]
            exec(compile(program, "<answer>", "exec", dont_inherit=True), {})
            reply(passed=True)
    except BaseException as error:
        reply(passed=False, error=(type(error).__name__ + ": " + str(error))[:500])


main()
