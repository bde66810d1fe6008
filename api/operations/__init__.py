"""Operations of the service, a file for each noun: plain functions, declared once, to which all doors lead."""
