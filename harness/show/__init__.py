"""What a person or a program is shown: reports made of facts, sentences made from them, and formats."""
