-- The words of builds, to search for them: message, branch and people as its commit names them. Every row has a token for
-- its organization and one for the account that began it, whose name is looked up where it is searched, so that a closed
-- account leaves none here. The texts themselves are in the tables. A million builds take less than a minute.
CREATE VIRTUAL TABLE build_words USING fts5(
    organization, creator, words, content = '', contentless_delete = 1, detail = 'full', prefix = '2 3',
    tokenize = "unicode61 remove_diacritics 2"
);
CREATE VIEW build_texts AS
SELECT
    builds.id,
    'o' || pipelines.organization_id AS organization,
    'u' || builds.created_by AS creator,
    concat_ws(
        ' ', substr(builds.message, 1, 1000), builds.branch, build_origins.author_name, build_origins.author_email,
        build_origins.actor
    ) AS words
FROM builds
INNER JOIN pipelines ON builds.pipeline_id = pipelines.id
LEFT JOIN build_origins ON builds.id = build_origins.build_id;

-- Who inserts a build indexes its words, too: with a trigger the insertion would look for rows that refer to it.
CREATE TRIGGER build_words_of_change AFTER UPDATE OF message, branch ON builds
BEGIN
    INSERT OR REPLACE INTO build_words (rowid, organization, creator, words)
    SELECT id, organization, creator, words FROM build_texts WHERE id = NEW.id;
END;
CREATE TRIGGER build_words_of_origin AFTER INSERT ON build_origins
BEGIN
    INSERT OR REPLACE INTO build_words (rowid, organization, creator, words)
    SELECT id, organization, creator, words FROM build_texts WHERE id = NEW.build_id;
END;

INSERT INTO build_words (rowid, organization, creator, words)
SELECT id, organization, creator, words FROM build_texts;
