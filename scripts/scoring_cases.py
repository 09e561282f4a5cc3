"""Questions in the formats of the benchmarks, and right, wrong and malformed responses to them. All of it is made here."""

FENCE = "`" * 3


def word_problems():
    people = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana"]
    rows = []
    for i, name in enumerate(people):
        price, count = 125 + 75 * i, 4 + 3 * i
        total = price * count
        steps = f"{name} pays {price} for each of {count} chairs.\nThat is {price}*{count} = <<{price}*{count}={total}>>{total}."
        question = f"{name} buys {count} chairs for ${price} each. How many dollars does {name} spend?"
        rows.append({"question": question, "answer": f"{steps}\n#### {total:,}"})
    return rows


def answers_in_numbers(row):
    right = row["answer"].split("#### ")[1]
    plain = right.replace(",", "")
    return {
        "asked for": f"He pays for each. The answer is {plain}.",
        "with separators": f"So the sum is {right}. The answer is {right}.",
        "money": f"The answer is ${right}.",
        "no full stop": f"The answer is {plain}",
        "hashes": f"Some steps\n#### {right}",
        "hashes, then more": f"#### {plain}\nbut maybe 3",
        "only a number": plain,
        "decimals": f"The answer is {plain}.00.",
        "negative": f"The answer is -{plain}.",
        "wrong": f"The answer is {int(plain) + 1}.",
        "right, then changed": f"The answer is {plain}. Wait, The answer is 7.",
        "wrong, then right": f"The answer is 7. Wait, The answer is {plain}.",
        "goes on with another question": f"The answer is {plain}.\n\nQ: what is 1 + 1?\nA: The answer is 2.",
        "goes on in the other form": f"#### {plain}\n\nQuestion: what is 1 + 1?\nAnswer: #### 2",
        "ends of text": f"The answer is {plain}.<|im_end|> 12 </s> 13",
        "words": "It is a great deal of money.",
        "punctuation": "$$ ., - ...",
        "empty": "",
        "spaces": "  \n\t ",
        "units": f"The answer is {plain} dollars.",
        "other digits": "The answer is ١٢٣.",
    }


def choices():
    subjects = ["law", "math", "computer science"]
    rows = []
    for i in range(6):
        options = [f"{word} of case {i}" for word in "first second third fourth fifth sixth seventh eighth ninth tenth".split()]
        options = options[: 4 + i]
        rows.append({
            "question_id": i, "question": f"Which option of case {i} is number {i % 4 + 1}?", "options": options,
            "answer": "ABCDEFGHIJ"[i % 4], "answer_index": i % 4, "cot_content": "", "category": subjects[i % 3], "src": "own",
        })
    return rows


def answers_in_letters(row):
    right = row["answer"]
    wrong = "J" if right != "J" else "A"
    return {
        "asked for": f"Step by step … the answer is ({right}).",
        "bare letter": f"the answer is {right}",
        "only opened": f"the answer is ({right}",
        "capital": f"The answer is ({right}).",
        "capital Answer": f"The Answer is ({right}).",
        "wrong": f"the answer is ({wrong}).",
        "wrong first": f"the answer is ({wrong}). No, the answer is ({right}).",
        "right first": f"the answer is ({right}). No, the answer is ({wrong}).",
        "lower case": f"the answer is ({right.lower()}).",
        "two spaces": f"the answer is  ({right}).",
        "letter beyond": "the answer is (K).",
        "word": f"the answer is {right}lways so",
        "next question": f"Question:\nthe answer is ({right})",
        "letter alone": f"({right})",
        "empty": "",
    }


PROBLEMS = [
    {
        "name": "double", "text": "Write a function that doubles a number.", "signature": "def double(n):",
        "doc": "Return twice n.", "body": "return 2 * n", "wrong": "return n * n",
        "tests": [("(3)", "6"), ("(0)", "0"), ("(-4)", "-8")],
    },
    {
        "name": "vowels", "text": "Write a function to count the vowels of a text.", "signature": "def vowels(text):",
        "doc": "Count the vowels.", "body": "return sum(c in 'aeiou' for c in text.lower())", "wrong": "return len(text)",
        "tests": [("('Queue')", "4"), ("('')", "0"), ("('rhythm')", "0")],
    },
    {
        "name": "steps", "text": "Write a function to count the halvings of a number down to one.", "signature": "def steps(n):",
        "doc": "Count how often n is halved until it is 1.",
        "body": "count = 0\n    while n > 1:\n        n //= 2\n        count += 1\n    return count", "wrong": "return n // 2",
        "tests": [("(8)", "3"), ("(1)", "0"), ("(9)", "3")],
    },
]


def functions():
    rows = []
    for i, p in enumerate(PROBLEMS):
        checks = "".join(f"    assert candidate{call} == {value}\n" for call, value in p["tests"])
        rows.append({
            "task_id": f"Own/{i}", "prompt": f"{p['signature']}\n    \"\"\" {p['doc']}\n    \"\"\"\n", "entry_point": p["name"],
            "canonical_solution": f"    {p['body']}\n", "test": f"\n\ndef check(candidate):\n{checks}",
        })
    return rows


def bodies(row):
    p = next(p for p in PROBLEMS if p["name"] == row["entry_point"])
    right, wrong = f"    {p['body']}\n", f"    {p['wrong']}\n"
    return {
        "right": right,
        "wrong": wrong,
        "right, then a test": f"{right}\n\ndef test():\n    assert False\n",
        "right, then a print": f"{right}\nprint({p['name']}{p['tests'][0][0]})\nnot python at all",
        "right, then a fence": f"{right}{FENCE}\nThis is why it works.",
        "right behind a fence": f"{FENCE}python\n{right}{FENCE}",
        "no indentation": p["body"].replace("\n    ", "\n"),
        "syntax error": "    return (",
        "raises": "    raise ValueError(1)\n",
        "leaves": "    import sys\n    sys.exit(0)\n",
        "prose": "The function can be written with a loop.",
        "empty": "",
    }


def programs():
    return [
        {
            "task_id": 11 + i, "text": p["text"], "code": f"{p['signature']}\n    {p['body']}",
            "test_list": [f"assert {p['name']}{call} == {value}" for call, value in p["tests"]],
            "test_setup_code": "", "challenge_test_list": [],
        }
        for i, p in enumerate(PROBLEMS)
    ]


def whole_programs(row):
    p = PROBLEMS[row["task_id"] - 11]
    right, wrong = row["code"] + "\n", f"{p['signature']}\n    {p['wrong']}\n"
    return {
        "right": right,
        "right and closed": f"{right}{FENCE}",
        "right on a new line, closed": f"\n{right}{FENCE}",
        "right, done": f"{right}[DONE]\nwhat comes behind",
        "right in a fence": f"{FENCE}python\n{right}{FENCE}",
        "right in a bare fence": f"Here it is:\n{FENCE}\n{right}{FENCE}\n",
        "right, closed, another block": f"{right}{FENCE}\nor\n{FENCE}python\n{wrong}{FENCE}",
        "wrong": wrong,
        "wrong and closed": f"{wrong}{FENCE}",
        "wrong, then right": f"{wrong}\n{right}",
        "another name": right.replace(p["name"], "something_else", 1),
        "syntax error": "def f(:\n",
        "leaves": "import sys\nsys.exit(0)\n",
        "leaves and closed": f"import sys\nsys.exit(0)\n{FENCE}",
        "prose": "Use a loop.",
        "empty": "",
    }


# The tasks of lm_eval, their data, and the responses to one row.
FILES = {"gsm8k": word_problems, "mmlu_pro": choices, "humaneval": functions, "mbpp": programs}
TASKS = {
    "gsm8k": ("gsm8k", answers_in_numbers),
    "gsm8k_cot": ("gsm8k", answers_in_numbers),
    "mmlu_pro_computer_science": ("mmlu_pro", answers_in_letters),
    "mmlu_pro_law": ("mmlu_pro", answers_in_letters),
    "mmlu_pro_math": ("mmlu_pro", answers_in_letters),
    "humaneval": ("humaneval", bodies),
    "humaneval_instruct": ("humaneval", bodies),
    "mbpp": ("mbpp", whole_programs),
    "mbpp_instruct": ("mbpp", whole_programs),
}


def cases():
    """One dict per response: task, doc_id, kind, response, and the row it answers."""
    for task, (file, responses) in TASKS.items():
        rows = FILES[file]()
        if file == "mmlu_pro":
            rows = [row for row in rows if task.endswith(row["category"].replace(" ", "_"))]
        for doc_id, row in enumerate(rows):
            for kind, response in responses(row).items():
                yield {"task": task, "doc_id": doc_id, "kind": kind, "response": response, "row": row}
